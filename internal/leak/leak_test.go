package leak

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sqlfence/sqlfence/internal/withdrawal"
)

func TestMain(m *testing.M) { Main(m) }

func TestWhatEndsLateIsWaitedFor(t *testing.T) {
	// A caller that has left, and a store that answers after longer than goleak waits.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answer := make(chan struct{})
	time.AfterFunc(2*time.Second, func() { close(answer) })
	if err := withdrawal.Run(ctx, errors.New("lost"), "open", func(context.Context) error {
		<-answer
		return nil
	}, nil); err == nil {
		t.Error("no error")
	}
	if err := goleak.Find(); err == nil {
		t.Error("the withdrawal is over already: there is nothing to wait for")
	}
	if err := find(time.Now().Add(time.Minute), nil); err != nil {
		t.Error(err)
	}
}

func TestWhatStaysIsFound(t *testing.T) {
	stay, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		<-stay
	}()
	if err := find(time.Now(), nil); err == nil {
		t.Error("a goroutine that stays was not found")
	}
	close(stay)
	<-gone
}
