package leasetest_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/lease"
	"github.com/sqlfence/sqlfence/lease/leasetest"
	"github.com/sqlfence/sqlfence/lease/memory"
)

// brokenEnv names the broken store that TestSuite is to run against, in a
// process of its own, where it must fail.
const brokenEnv = "LEASETEST_BROKEN_STORE"

// forgets is the broken store that a restart empties.
const forgets = "a restart forgets"

func TestSuite(t *testing.T) {
	wrap := func(w *witness) lease.Store { return w }
	name := os.Getenv(brokenEnv)
	if name != "" {
		wrap = brokenStores[name].store
	}
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	start := func() lease.Store {
		return wrap(&witness{Store: memory.New(memory.Clock(clock)), claims: make(map[string]lease.Claim)})
	}
	leasetest.Run(t, leasetest.Config{
		New:   func(testing.TB) lease.Store { return start() },
		Lapse: func(testing.TB, lease.Store, string) { ahead.Add(int64(2 * time.Hour)) },
		// The store goes on; no server is there that could end.
		Restart: func(_ testing.TB, s lease.Store) lease.Store {
			if name == forgets {
				return start()
			}
			return s
		},
		Rounds: 40,
	})
}

func TestSuiteFailsBrokenStores(t *testing.T) {
	for name, broken := range brokenStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestSuite$")
			cmd.Env = append(os.Environ(), brokenEnv+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("the suite ended with %v, want a failure; its output:\n%s", err, out)
			}
			clause := "--- FAIL: TestSuite/" + strings.ReplaceAll(broken.clause, " ", "_")
			if !strings.Contains(string(out), clause) {
				t.Errorf("no %q in the output:\n%s", clause, out)
			}
		})
	}
}

// witness is a memory store that remembers the newest claim to each resource.
type witness struct {
	*memory.Store
	mu     sync.Mutex
	claims map[string]lease.Claim
}

func (w *witness) Acquire(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
	g, err := w.Store.Acquire(ctx, req)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.claims[req.Resource] = lease.Claim{Token: g.Token, Owner: req.Owner, TTL: req.TTL}
	}
	return g, err
}

// newest returns the newest claim to the resource.
func (w *witness) newest(resource string) lease.Claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.claims[resource]
}

// broken is a store with one thing wrong.
type broken struct {
	*witness
	acquire func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error)
	renew   func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error)
	release func(ctx context.Context, c lease.Claim, wait time.Duration) error
	inspect func(ctx context.Context, resource string) (lease.State, error)
}

func (b *broken) Acquire(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
	if b.acquire != nil {
		return b.acquire(ctx, req)
	}
	return b.witness.Acquire(ctx, req)
}

func (b *broken) Renew(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
	if b.renew != nil {
		return b.renew(ctx, claims)
	}
	return b.witness.Renew(ctx, claims)
}

func (b *broken) Release(ctx context.Context, c lease.Claim, wait time.Duration) error {
	if b.release != nil {
		return b.release(ctx, c, wait)
	}
	return b.witness.Release(ctx, c, wait)
}

func (b *broken) Inspect(ctx context.Context, resource string) (lease.State, error) {
	if b.inspect != nil {
		return b.inspect(ctx, resource)
	}
	return b.witness.Inspect(ctx, resource)
}

// forgiving renews each claim after mend has changed it.
func forgiving(w *witness, mend func(c, newest lease.Claim) lease.Claim) lease.Store {
	return &broken{witness: w, renew: func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
		mended := make([]lease.Claim, len(claims))
		for i, c := range claims {
			mended[i] = mend(c, w.newest(c.Token.Resource))
		}
		return w.Renew(ctx, mended)
	}}
}

// brokenStores are stores with one thing wrong, and the clause that must say
// so. All were seen in the wild; CASES cites most.
var brokenStores = map[string]struct {
	clause string
	store  func(*witness) lease.Store
}{
	"a denial extends the lease": {
		"acquire/a held resource is denied to others",
		func(w *witness) lease.Store {
			return &broken{witness: w, acquire: func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
				g, err := w.Acquire(ctx, req)
				if errors.Is(err, lease.ErrNotAcquirable) {
					_, _ = w.Renew(ctx, []lease.Claim{w.newest(req.Resource)})
				}
				return g, err
			}}
		},
	},
	"a denial does not tell what remains": {
		"acquire/a held resource is denied to others",
		func(w *witness) lease.Store {
			return &broken{witness: w, acquire: func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
				g, err := w.Acquire(ctx, req)
				var held *lease.HeldError
				if errors.As(err, &held) {
					held.Remaining = 0
				}
				return g, err
			}}
		},
	},
	"epochs start again after a release": {
		"acquire/a thousand acquires and releases",
		func(w *witness) lease.Store {
			return &broken{witness: w, acquire: func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
				g, err := w.Acquire(ctx, req)
				g.Token.Epoch = 1
				return g, err
			}}
		},
	},
	"two are granted at once": {
		"concurrency/of those who acquire at once",
		func(w *witness) lease.Store {
			var denials atomic.Int32
			return &broken{witness: w, acquire: func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
				g, err := w.Acquire(ctx, req)
				if errors.Is(err, lease.ErrNotAcquirable) && denials.Add(1)%100 == 0 {
					return lease.Granted{Token: w.newest(req.Resource).Token, TTL: req.TTL}, nil
				}
				return g, err
			}}
		},
	},
	"the owner of a renewal is not looked at": { // riverqueue/river#197
		"renew/a renewal by anybody but the holder",
		func(w *witness) lease.Store {
			return forgiving(w, func(c, newest lease.Claim) lease.Claim { c.Owner = newest.Owner; return c })
		},
	},
	"the grant of a renewal is not looked at": {
		"renew/a renewal by anybody but the holder",
		func(w *witness) lease.Store {
			return forgiving(w, func(c, newest lease.Claim) lease.Claim {
				if c.Token.Epoch == newest.Token.Epoch {
					c.Token.Grant = newest.Token.Grant
				}
				return c
			})
		},
	},
	"the epoch of a renewal is not looked at": {
		"reentry/by default the own name gets a new token",
		func(w *witness) lease.Store {
			return forgiving(w, func(c, newest lease.Claim) lease.Claim { c.Token = newest.Token; return c })
		},
	},
	"owners are trimmed": {
		"renew/a renewal by anybody but the holder",
		func(w *witness) lease.Store {
			return forgiving(w, func(c, _ lease.Claim) lease.Claim { c.Owner = strings.TrimSpace(c.Owner); return c })
		},
	},
	"a late renewal revives the lease": { // Soju06/codex-lb#1253
		"renew/a late renewal is refused",
		func(w *witness) lease.Store {
			return &broken{witness: w, renew: func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
				renewed, err := w.Renew(ctx, claims)
				for i, r := range renewed {
					if errors.Is(r.Err, lease.ErrLapsed) {
						renewed[i] = lease.Renewed{Expiry: time.Now().UTC()}
					}
				}
				return renewed, err
			}}
		},
	},
	"a batch is answered in the order of the names": {
		"renew/a batch is answered in the order of its claims",
		func(w *witness) lease.Store {
			return &broken{witness: w, renew: func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
				sorted := slices.Clone(claims)
				slices.SortFunc(sorted, func(a, b lease.Claim) int { return cmp.Compare(a.Token.Resource, b.Token.Resource) })
				return w.Renew(ctx, sorted)
			}}
		},
	},
	"one loss fails the whole batch": {
		"renew/a batch is answered in the order of its claims",
		func(w *witness) lease.Store {
			return &broken{witness: w, renew: func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
				renewed, err := w.Renew(ctx, claims)
				for _, r := range renewed {
					if r.Err != nil {
						return nil, r.Err
					}
				}
				return renewed, err
			}}
		},
	},
	"a release that fails says that it succeeded": {
		"release/a second release is refused",
		func(w *witness) lease.Store {
			return &broken{witness: w, release: func(ctx context.Context, c lease.Claim, wait time.Duration) error {
				_ = w.Release(ctx, c, wait)
				return nil
			}}
		},
	},
	"anybody can release": {
		"release/a release by anybody but the holder",
		func(w *witness) lease.Store {
			return &broken{witness: w, release: func(ctx context.Context, c lease.Claim, wait time.Duration) error {
				return w.Release(ctx, w.newest(c.Token.Resource), wait)
			}}
		},
	},
	"a TTL of 0 is for ever": { // phpredis/phpredis#640
		"ttl/a TTL below 1 ms or above 10 years is invalid",
		func(w *witness) lease.Store {
			return &broken{witness: w, acquire: func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
				if req.TTL == 0 {
					req.TTL = lease.MaxTTL
				}
				return w.Acquire(ctx, req)
			}}
		},
	},
	"the TTL is cut to seconds": { // kent8192/reinhardt-web#2719
		"ttl/the TTL is honoured",
		func(w *witness) lease.Store {
			return &broken{witness: w, acquire: func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
				if req.TTL > time.Second {
					req.TTL = req.TTL.Truncate(time.Second)
				} else if req.TTL > 0 {
					req.TTL = max(req.TTL, lease.MinTTL)
				}
				return w.Acquire(ctx, req)
			}, renew: func(ctx context.Context, claims []lease.Claim) ([]lease.Renewed, error) {
				cut := slices.Clone(claims)
				for i, c := range cut {
					if c.TTL > time.Second {
						cut[i].TTL = c.TTL.Truncate(time.Second)
					}
				}
				return w.Renew(ctx, cut)
			}}
		},
	},
	"names are compared without case": { // dbtrail#1815
		"names/names are compared byte for byte",
		func(w *witness) lease.Store {
			return &broken{witness: w, acquire: func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
				name := req.Resource
				req.Resource = strings.ToLower(name)
				g, err := w.Acquire(ctx, req)
				g.Token.Resource = name
				return g, err
			}}
		},
	},
	"long names are cut": {
		"names/a name that is empty, too long",
		func(w *witness) lease.Store {
			return &broken{witness: w, acquire: func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
				req.Owner = req.Owner[:min(len(req.Owner), 255)]
				return w.Acquire(ctx, req)
			}}
		},
	},
	"inspecting shows a lapsed lease as held": {
		"inspect/a lapsed lease tells its last owner",
		func(w *witness) lease.Store {
			return &broken{witness: w, inspect: func(ctx context.Context, resource string) (lease.State, error) {
				state, err := w.Inspect(ctx, resource)
				if state.Status == lease.Lapsed {
					state.Status = lease.Held
				}
				return state, err
			}}
		},
	},
	forgets: {
		"restart/a restart keeps owners",
		func(w *witness) lease.Store { return w },
	},
	"contexts are not heeded": {
		"context/an operation under a context that has ended",
		func(w *witness) lease.Store {
			return &broken{witness: w, acquire: func(ctx context.Context, req lease.AcquireRequest) (lease.Granted, error) {
				return w.Acquire(context.WithoutCancel(ctx), req)
			}}
		},
	},
}
