package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// splicing is what the Go side of a guarded write costs for one text.
type splicing struct {
	engine       string
	text         string // what it is, for people
	cold, cached cost
}

// cost of one call.
type cost struct {
	nanoseconds float64
	allocations float64
}

// measureSplicing measures each text for d, cold (the text is analysed) and
// cached (it has been seen).
func measureSplicing(d time.Duration) ([]splicing, error) {
	const orm = ` "users" ("created_at", "updated_at", "name", "email", "active", "age") VALUES `
	var measured []splicing
	for _, c := range []struct {
		engine     sqlgen.Engine
		name, text string
	}{
		{sqlgen.PostgreSQL, "the UPDATE above", postgreSQL.update},
		{sqlgen.PostgreSQL, "an ORM's upsert with RETURNING", `INSERT INTO` + orm + `($1, $2, $3, $4, $5, $6) ON CONFLICT ("email") DO UPDATE SET "name" = "excluded"."name", "age" = "excluded"."age" RETURNING "id"`},
		{sqlgen.SQLite, "the UPDATE above", sqlite.update},
		{sqlgen.SQLite, "an ORM's upsert with RETURNING", `INSERT INTO` + orm + `(?, ?, ?, ?, ?, ?) ON CONFLICT ("email") DO UPDATE SET "name" = "excluded"."name", "age" = "excluded"."age" RETURNING "id"`},
	} {
		s := splicing{engine: c.engine.String(), text: c.name}
		if _, err := sqlgen.Analyze(c.engine, c.text).Guarded(1); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", s.engine, s.text, err)
		}
		s.cold = measureCalls(d, func() { _, _ = sqlgen.Analyze(c.engine, c.text).Guarded(1) })
		cache := sqlgen.NewCache(c.engine)
		s.cached = measureCalls(d, func() { _, _ = cache.Plan(c.text).Guarded(1) })
		measured = append(measured, s)
	}
	return measured, nil
}

// measureCalls calls f for d.
func measureCalls(d time.Duration, f func()) cost {
	f() // fills the cache
	const batch = 100
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	calls, began := 0, time.Now()
	for time.Since(began) < d {
		for range batch {
			f()
		}
		calls += batch
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return cost{
		nanoseconds: float64(took.Nanoseconds()) / float64(calls),
		allocations: float64(after.Mallocs-before.Mallocs) / float64(calls),
	}
}
