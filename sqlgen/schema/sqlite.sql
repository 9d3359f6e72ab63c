-- sqlfence, version 1, for SQLite 3.40 and later. Idempotent.
--
-- STRICT keeps every epoch an exact 64-bit integer. Elsewhere, SQLite turns an
-- integer that overflows into a REAL without a word.
-- Times are milliseconds since 1970-01-01 UTC by the clock of the machine that
-- writes.

CREATE TABLE IF NOT EXISTS main.sqlfence_meta (
	only INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
	version INTEGER NOT NULL CHECK (version >= 1),
	-- No epoch at or below the floor is ever minted.
	floor INTEGER NOT NULL CHECK (floor >= 0)
) STRICT;

INSERT OR IGNORE INTO main.sqlfence_meta (only, version, floor) VALUES (1, 1, 0);

-- Who holds what: written by every heartbeat. Without an owner it is free.
CREATE TABLE IF NOT EXISTS main.sqlfence_leases (
	resource TEXT NOT NULL COLLATE BINARY PRIMARY KEY CHECK (resource <> ''),
	owner TEXT COLLATE BINARY CHECK (owner <> ''),
	epoch INTEGER NOT NULL CHECK (epoch >= 1),
	grant_id INTEGER NOT NULL,
	expires_at INTEGER,
	CHECK ((owner IS NULL) = (expires_at IS NULL))
) STRICT, WITHOUT ROWID;

-- The high-water marks: written only when a mark moves, read by every guarded
-- write.
CREATE TABLE IF NOT EXISTS main.sqlfence_fences (
	resource TEXT NOT NULL COLLATE BINARY PRIMARY KEY CHECK (resource <> ''),
	high_water INTEGER NOT NULL CHECK (high_water >= 1),
	grant_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
