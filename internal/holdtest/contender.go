package holdtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/lease"
)

// A test binary that finds these in its environment is a contender.
const (
	envContended = "SQLFENCE_TEST_CONTENDED" // where its store is
	envContender = "SQLFENCE_TEST_CONTENDER" // its owner
	envAcquires  = "SQLFENCE_TEST_CONTENDER_ACQUIRES"
)

// Contend returns if this process is none that [Contenders] has started. Otherwise it
// acquires on the store that open returns for a place, prints the grants, and exits. It
// is called first in TestMain.
func Contend(open func(where string) (lease.Store, error)) {
	where, owner := os.Getenv(envContended), os.Getenv(envContender)
	if owner == "" {
		return
	}
	err := contend(open, where, owner)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// contend acquires the resource over and over, as soon as it has lapsed.
func contend(open func(where string) (lease.Store, error), where, owner string) error {
	var acquires int
	if _, err := fmt.Sscan(os.Getenv(envAcquires), &acquires); err != nil {
		return err
	}
	store, err := open(where)
	if err != nil {
		return err
	}
	req := lease.AcquireRequest{Resource: "job", Owner: owner, TTL: lease.MinTTL, Wait: time.Minute}
	out := bufio.NewWriter(os.Stdout)
	for n := 0; n < acquires; {
		g, err := store.Acquire(context.Background(), req)
		if held := (*lease.HeldError)(nil); errors.As(err, &held) {
			<-time.After(held.Remaining)
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(out, g.Token.Epoch, g.Token.Grant)
		n++
	}
	return out.Flush()
}

// Contenders checks CASES D6: of eight processes that acquire a lapsed resource, so many
// times each, none gets a token that another one got, and for each the epochs grow. where
// is the store's place as Contend is given it, without the resource "job" so far.
func Contenders(t *testing.T, where string, acquires int) {
	t.Helper()
	const processes = 8
	outputs := make([]bytes.Buffer, processes)
	var running sync.WaitGroup
	for i := range outputs {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envContended+"="+where, envContender+"="+fmt.Sprint("owner-", i), envAcquires+"="+fmt.Sprint(acquires))
		cmd.Stdout = &outputs[i]
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	running.Wait()

	var all []int64
	grants := make(map[int64]bool)
	for i := range outputs {
		last := int64(0)
		for line := range bytes.Lines(outputs[i].Bytes()) {
			var epoch, grant int64
			if _, err := fmt.Sscan(string(line), &epoch, &grant); err != nil {
				t.Fatal(err)
			}
			if epoch <= last {
				t.Errorf("process %d: expected an epoch above %d, saw %d", i, last, epoch)
			}
			last = epoch
			all = append(all, epoch)
			grants[grant] = true
		}
	}
	slices.Sort(all)
	for i, epoch := range all {
		if epoch != int64(i+1) {
			t.Fatalf("expected each epoch once: at place %d saw %d", i+1, epoch)
		}
	}
	if len(all) != processes*acquires || len(grants) != len(all) {
		t.Errorf("expected %d epochs and grants, saw %d and %d", processes*acquires, len(all), len(grants))
	}
}
