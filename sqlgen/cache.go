package sqlgen

import (
	"hash/maphash"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// The bounds of a Cache. A text longer than maxCachedText is analysed each
// time: it is a bulk insert with its values written into it, and used once.
const (
	cacheShards     = 16
	maxShardEntries = 128       // 2,048 texts in all
	maxShardBytes   = 512 << 10 // of texts and their spliced forms: 8 MiB in all
	maxCachedText   = 32 << 10
	doorkeeperSlots = 1024 // per shard
)

// Cache keeps the plans of the texts that a program sends again and again. It
// is bounded in entries and in bytes, and a text is kept from its second use
// on only, so that texts used once do not drive out the others. It is safe for
// concurrent use; a hit takes no lock and allocates nothing.
type Cache struct {
	engine  Engine
	options options
	seed    maphash.Seed
	shards  [cacheShards]cacheShard
}

type cacheShard struct {
	plans atomic.Pointer[map[string]*cacheEntry] // copied on write
	mu    sync.Mutex                             // guards what follows, and writing
	bytes int
	seen  [doorkeeperSlots]uint32 // fingerprints of texts used once
	_     [64]byte                // keeps the shards' pointers on cache lines of their own
}

type cacheEntry struct {
	plan *Plan
	used atomic.Bool // since the last sweep
}

// NewCache returns an empty cache for texts of the engine, executed in sessions
// of which the options hold.
func NewCache(e Engine, opts ...Option) *Cache {
	return &Cache{engine: e, options: newOptions(opts), seed: maphash.MakeSeed()}
}

// Plan returns the plan of the text.
func (c *Cache) Plan(text string) *Plan {
	if len(text) > maxCachedText {
		return analyze(c.engine, text, c.options)
	}
	hash := maphash.String(c.seed, text)
	s := &c.shards[hash%cacheShards]
	if plans := s.plans.Load(); plans != nil {
		if e := (*plans)[text]; e != nil {
			// Written once a sweep, so that a hot entry's cache line stays
			// shared among the cores.
			if !e.used.Load() {
				e.used.Store(true)
			}
			return e.plan
		}
	}
	// The text may be a piece of a larger one, which must not be kept alive.
	p := analyze(c.engine, strings.Clone(text), c.options)
	s.offer(hash, p)
	return p
}

// offer keeps the plan if its text has been seen before.
func (s *cacheShard) offer(hash uint64, p *Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, print := &s.seen[hash/cacheShards%doorkeeperSlots], uint32(hash>>32)|1
	if *slot != print {
		*slot = print
		return
	}
	old := s.plans.Load()
	if old != nil && (*old)[p.text] != nil {
		return
	}
	plans := make(map[string]*cacheEntry, maxShardEntries)
	if old != nil {
		maps.Copy(plans, *old)
	}
	s.bytes += p.size()
	for len(plans) >= maxShardEntries || s.bytes > maxShardBytes && len(plans) > 0 {
		s.sweep(plans)
	}
	plans[p.text] = &cacheEntry{plan: p}
	s.plans.Store(&plans)
}

// sweep drops the entries that were not used since the last one, and gives
// those that were another turn.
func (s *cacheShard) sweep(plans map[string]*cacheEntry) {
	for text, e := range plans {
		if !e.used.Swap(false) {
			delete(plans, text)
			s.bytes -= e.plan.size()
		}
	}
}

// size is an upper bound of what the plan and its one spliced form hold.
func (p *Plan) size() int { return 2*len(p.text) + 1024 + 24*len(p.edits) }
