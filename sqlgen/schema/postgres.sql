-- sqlfence: schema of version 1 for PostgreSQL 13 to 18.
--
-- Run it as one string, or in one transaction, by any tool (psql -1 -f, goose
-- between "-- +goose StatementBegin" and "-- +goose StatementEnd",
-- golang-migrate, atlas), as the role that shall own the schema; that role
-- needs CREATE on the database the first time, and no superuser rights. It is
-- idempotent. Roles that use it need the privileges that sqlgen.Grants names.
--
-- Two tables carry everything: leases, written by each heartbeat, and fences,
-- written only when a mark moves. Guarded writes read fences alone, so that
-- heartbeats and guarded writes never meet.
--
-- The turnstile of a resource is a transaction-level advisory lock (in the
-- two-key space, of a 64-bit hash of the name). A guarded write holds it
-- shared until its transaction ends; whatever moves the mark holds it
-- exclusively. The lock manager queues fairly, so that a takeover waits for
-- the guarded transactions that were open when it began, and not for later
-- ones. Order of all locks: turnstile, row of leases, row of fences; only
-- purge has the row of meta first.
--
-- Functions whose comment does not say "internal" are for everybody's use. They
-- run with the rights of their owner, so every name, type, collation and
-- operator in them is qualified, and no construct is used that looks an operator
-- up by search_path (IN, BETWEEN, CASE x WHEN, NULLIF, IS DISTINCT FROM, LIKE,
-- JOIN USING): no user's object can take the place of what is meant. Names are
-- compared COLLATE "C", that is byte for byte, whatever collation an argument
-- brings along.
--
-- A denial is a returned row. What is raised:
--   SF001  fenced: the token is older than the mark, or of another grant
--   SF002  unregistered: the token is above the mark, or there is no mark
--   SF003  invalid input
--   SF004  epochs exhausted: 9223372036854775807 is reached and never wrapped
--   SF005  the schema is damaged, or belongs to another role
--   SF009  expired: the token is valid, but its lease has run out (pass_unexpired)
--   SF010  there is no lease of the token in this database (pass_unexpired)
--   SF008  a protected table was written without passing the fence
--   (SF999 is used within and never leaves; it is not SF000, because a handler for
--   a code that ends in 000 catches its whole class)
--   57014  with DETAIL 'sqlfence: wait bound spent': the bounded wait for open
--          guarded transactions is spent; without it: a cancel or a
--          statement_timeout, as ever
--   40001  under REPEATABLE READ and SERIALIZABLE: the transaction's snapshot is
--          too old to tell; run the transaction again
-- In READ COMMITTED each statement of a VOLATILE function sees what was committed
-- before it began, so a plain read after a lock is fresh. Under the other levels
-- reads are FOR SHARE or FOR UPDATE, and what the snapshot does not show is
-- probed by an insert: both raise 40001 rather than answer from the past.

DO $sqlfence$
BEGIN
	-- Programs that start at once wait for each other here.
	PERFORM pg_catalog.pg_advisory_xact_lock(1936813158, 1);
	-- Not from pg_namespace: under REPEATABLE READ its rows are those of before the
	-- wait. What is created and not yet shown was created by the same program.
	IF pg_catalog.to_regnamespace('sqlfence') IS NULL THEN
		CREATE SCHEMA sqlfence;
	ELSIF EXISTS (SELECT FROM pg_catalog.pg_namespace AS n
			JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
			WHERE n.nspname OPERATOR(pg_catalog.=) 'sqlfence'::pg_catalog.name
			AND r.rolname OPERATOR(pg_catalog.<>) CURRENT_USER) THEN
		-- Functions that run with one role's rights over another's tables
		-- would lend those rights to the other.
		RAISE EXCEPTION USING ERRCODE = 'SF005',
			MESSAGE = 'sqlfence: schema "sqlfence" belongs to another role: run this script as its owner (SET ROLE)';
	END IF;
END
$sqlfence$;

-- The one row that all resources share. No epoch is ever minted at or below
-- floor: it stands for the rows that purge has dropped.
CREATE TABLE IF NOT EXISTS sqlfence.meta (
	singleton pg_catalog.bool PRIMARY KEY DEFAULT true CHECK (singleton),
	floor pg_catalog.int8 NOT NULL CHECK (floor OPERATOR(pg_catalog.>=) 0),
	-- Whether a table is protected: pass then leaves its token for the triggers.
	protects pg_catalog.bool NOT NULL DEFAULT false
);
DO $sqlfence$
BEGIN
	INSERT INTO sqlfence.meta (floor) VALUES (0) ON CONFLICT (singleton) DO NOTHING;
EXCEPTION WHEN serialization_failure THEN
	-- Under REPEATABLE READ: another run has just inserted it.
	NULL;
END
$sqlfence$;

-- FREE: owner and expires_at are null. HELD until expires_at, LAPSED from then on.
-- freed_at is when it last became FREE. Heartbeats update in place (HOT).
CREATE TABLE IF NOT EXISTS sqlfence.leases (
	resource pg_catalog.text COLLATE pg_catalog."C" PRIMARY KEY
		CHECK (pg_catalog.octet_length(resource) OPERATOR(pg_catalog.>=) 1
			AND pg_catalog.octet_length(resource) OPERATOR(pg_catalog.<=) 255),
	owner pg_catalog.text COLLATE pg_catalog."C"
		CHECK (pg_catalog.octet_length(owner) OPERATOR(pg_catalog.>=) 1
			AND pg_catalog.octet_length(owner) OPERATOR(pg_catalog.<=) 255),
	epoch pg_catalog.int8 NOT NULL CHECK (epoch OPERATOR(pg_catalog.>=) 1),
	grant_id pg_catalog.int8 NOT NULL,
	expires_at pg_catalog.timestamptz,
	freed_at pg_catalog.timestamptz,
	CHECK ((owner IS NULL) OPERATOR(pg_catalog.=) (expires_at IS NULL))
) WITH (fillfactor = 70);

-- The marks. advanced: the mark was once raised to a token from elsewhere, so it
-- says nothing about how many epochs were minted here, and purge leaves it alone.
CREATE TABLE IF NOT EXISTS sqlfence.fences (
	resource pg_catalog.text COLLATE pg_catalog."C" PRIMARY KEY
		CHECK (pg_catalog.octet_length(resource) OPERATOR(pg_catalog.>=) 1
			AND pg_catalog.octet_length(resource) OPERATOR(pg_catalog.<=) 255),
	high_water pg_catalog.int8 NOT NULL CHECK (high_water OPERATOR(pg_catalog.>=) 1),
	grant_id pg_catalog.int8 NOT NULL,
	advanced pg_catalog.bool NOT NULL DEFAULT false
) WITH (fillfactor = 70);

-- Requests to acquire or advance whose callers have given up: see abandon.
CREATE TABLE IF NOT EXISTS sqlfence.abandoned (
	request pg_catalog.int8 PRIMARY KEY,
	at pg_catalog.timestamptz NOT NULL
);

-- The target of the INSERT that makes a check run in the WITH list of a write. No
-- row can ever be in it.
CREATE TABLE IF NOT EXISTS sqlfence.nothing (CHECK (false));

-- pass is the check of a guarded write: true, or it raises SF001 or SF002 (their
-- messages have a fixed form, which programs read; the resource comes last
-- because it may hold anything) or SF003. Until the transaction ends, or rolls
-- back to a savepoint set before, nothing moves the resource's mark.
CREATE OR REPLACE FUNCTION sqlfence.pass(
	resource pg_catalog.text, epoch pg_catalog.int8, grant_id pg_catalog.int8
) RETURNS pg_catalog.bool
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
#variable_conflict use_column
DECLARE
	key pg_catalog.int8 := pg_catalog.hashtextextended(pass.resource COLLATE pg_catalog."C", 0);
	mark pg_catalog.int8;
	mark_grant pg_catalog.int8;
	protects pg_catalog.bool;
BEGIN
	IF pass.resource IS NULL OR pass.epoch IS NULL OR pass.grant_id IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: null in a token';
	END IF;
	-- An IF, because it is evaluated without the executor, and PERFORM is not.
	IF pg_catalog.pg_advisory_xact_lock_shared(
		(key OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4,
		((key OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4) IS NULL THEN
	END IF;
	-- To PostgreSQL, READ UNCOMMITTED is READ COMMITTED.
	IF pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ') THEN
		SELECT f.high_water, f.grant_id, (SELECT m.protects FROM sqlfence.meta AS m) INTO mark, mark_grant, protects
		FROM sqlfence.fences AS f
		WHERE f.resource OPERATOR(pg_catalog.=) (pass.resource COLLATE pg_catalog."C");
	ELSE
		SELECT f.high_water, f.grant_id, (SELECT m.protects FROM sqlfence.meta AS m) INTO mark, mark_grant, protects
		FROM sqlfence.fences AS f
		WHERE f.resource OPERATOR(pg_catalog.=) (pass.resource COLLATE pg_catalog."C") FOR SHARE;
		IF mark IS NULL AND pg_catalog.octet_length(pass.resource) OPERATOR(pg_catalog.>=) 1
				AND pg_catalog.octet_length(pass.resource) OPERATOR(pg_catalog.<=) 255 THEN
			-- 40001 if there is a mark that the snapshot does not show. What is
			-- raised below undoes the insert.
			INSERT INTO sqlfence.fences (resource, high_water, grant_id)
			VALUES (pass.resource, 1, 0) ON CONFLICT (resource) DO NOTHING;
		END IF;
	END IF;
	IF mark IS NULL OR pass.epoch OPERATOR(pg_catalog.>) mark THEN
		-- A standby may not have heard of the grant yet.
		IF pg_catalog.pg_is_in_recovery() THEN
			RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction', MESSAGE = pg_catalog.format(
				'sqlfence: a standby cannot tell whether epoch %s of %s is the latest', pass.epoch, pass.resource);
		END IF;
		RAISE EXCEPTION USING ERRCODE = 'SF002', MESSAGE = pg_catalog.format(
			'sqlfence: unregistered: high_water=%s grant=%s epoch=%s resource=%s',
			COALESCE(mark, 0), pass.grant_id, pass.epoch, pass.resource);
	END IF;
	IF pass.epoch OPERATOR(pg_catalog.=) mark AND pass.grant_id OPERATOR(pg_catalog.=) mark_grant THEN
		IF protects THEN
			PERFORM pg_catalog.set_config('sqlfence.passed',
				pg_catalog.concat(pass.epoch, '.', pass.grant_id, '.', pass.resource), true);
		END IF;
		RETURN true;
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'SF001', MESSAGE = pg_catalog.format(
		'sqlfence: fenced: high_water=%s grant=%s epoch=%s resource=%s',
		mark, pass.grant_id, pass.epoch, pass.resource);
END
$sqlfence$;

-- pass_unexpired is pass for policies that end ownership at the expiry: it also
-- raises SF009 if the lease has expired, and SF010 if there is none here. The lease is
-- read without a lock, so that renewals do not wait.
CREATE OR REPLACE FUNCTION sqlfence.pass_unexpired(
	resource pg_catalog.text, epoch pg_catalog.int8, grant_id pg_catalog.int8
) RETURNS pg_catalog.bool
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
#variable_conflict use_column
DECLARE
	expiry pg_catalog.timestamptz;
BEGIN
	PERFORM sqlfence.pass(pass_unexpired.resource, pass_unexpired.epoch, pass_unexpired.grant_id);
	SELECT l.expires_at INTO expiry FROM sqlfence.leases AS l
	WHERE l.resource OPERATOR(pg_catalog.=) (pass_unexpired.resource COLLATE pg_catalog."C")
		AND l.epoch OPERATOR(pg_catalog.=) pass_unexpired.epoch AND l.grant_id OPERATOR(pg_catalog.=) pass_unexpired.grant_id;
	IF expiry OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp() THEN
		RETURN true;
	END IF;
	IF expiry IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'SF010', MESSAGE = pg_catalog.format(
			'sqlfence: no lease: resource=%s', pass_unexpired.resource);
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'SF009', MESSAGE = pg_catalog.format(
		'sqlfence: expired: high_water=%s grant=%s epoch=%s resource=%s',
		pass_unexpired.epoch, pass_unexpired.grant_id, pass_unexpired.epoch, pass_unexpired.resource);
END
$sqlfence$;

-- mark returns the mark of a resource, or no row. It waits for nothing.
CREATE OR REPLACE FUNCTION sqlfence.mark(resource pg_catalog.text)
RETURNS TABLE (high_water pg_catalog.int8, grant_id pg_catalog.int8)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER ROWS 1 AS $sqlfence$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT f.high_water, f.grant_id FROM sqlfence.fences AS f
	WHERE f.resource OPERATOR(pg_catalog.=) (mark.resource COLLATE pg_catalog."C");
END
$sqlfence$;

-- high_water returns the mark's epoch, 0 for a resource never seen.
CREATE OR REPLACE FUNCTION sqlfence.high_water(resource pg_catalog.text) RETURNS pg_catalog.int8
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
#variable_conflict use_column
BEGIN
	RETURN COALESCE((SELECT f.high_water FROM sqlfence.fences AS f
		WHERE f.resource OPERATOR(pg_catalog.=) (high_water.resource COLLATE pg_catalog."C")), 0);
END
$sqlfence$;

-- check_name raises SF003 unless name is 1 to 255 bytes. Internal.
CREATE OR REPLACE FUNCTION sqlfence.check_name(what pg_catalog.text, name pg_catalog.text) RETURNS pg_catalog.void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
DECLARE
	bytes pg_catalog.int4 := COALESCE(pg_catalog.octet_length(check_name.name), 0);
BEGIN
	IF bytes OPERATOR(pg_catalog.<) 1 OR bytes OPERATOR(pg_catalog.>) 255 THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = pg_catalog.format(
			'sqlfence: invalid input: %s of %s bytes, not of 1 to 255', check_name.what, bytes);
	END IF;
END
$sqlfence$;

-- check_token raises SF003 unless the three could be a token. Internal.
CREATE OR REPLACE FUNCTION sqlfence.check_token(
	resource pg_catalog.text, epoch pg_catalog.int8, grant_id pg_catalog.int8
) RETURNS pg_catalog.void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
BEGIN
	PERFORM sqlfence.check_name('resource', check_token.resource);
	IF check_token.epoch IS NULL OR check_token.grant_id IS NULL
			OR check_token.epoch OPERATOR(pg_catalog.<) 1 THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = pg_catalog.format(
			'sqlfence: invalid input: token of epoch %s, grant %s',
			COALESCE(check_token.epoch::pg_catalog.text, 'null'), COALESCE(check_token.grant_id::pg_catalog.text, 'null'));
	END IF;
END
$sqlfence$;

-- span returns ttl as an interval of seconds alone, which no time zone's change
-- of hour can stretch (CASES D12), and raises SF003 unless it is 1 ms to 10
-- years. Internal.
CREATE OR REPLACE FUNCTION sqlfence.span(ttl pg_catalog.interval) RETURNS pg_catalog.interval
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
DECLARE
	seconds pg_catalog.float8 := pg_catalog.date_part('epoch', span.ttl);
BEGIN
	IF seconds OPERATOR(pg_catalog.>=) 0.001::pg_catalog.float8
			AND seconds OPERATOR(pg_catalog.<=) 315576000::pg_catalog.float8 THEN
		RETURN pg_catalog.make_interval(secs => seconds);
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = pg_catalog.format(
		'sqlfence: invalid input: TTL of %s s is not between 1 ms and 10 years', COALESCE(seconds::pg_catalog.text, 'null'));
END
$sqlfence$;

-- new_grant returns a random number other than 0. Internal.
CREATE OR REPLACE FUNCTION sqlfence.new_grant() RETURNS pg_catalog.int8
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
DECLARE
	n pg_catalog.int8;
BEGIN
	LOOP
		n := pg_catalog.hashtextextended(pg_catalog.gen_random_uuid()::pg_catalog.text COLLATE pg_catalog."C", 0);
		EXIT WHEN n OPERATOR(pg_catalog.<>) 0;
	END LOOP;
	RETURN n;
END
$sqlfence$;

-- durable makes the transaction durable before it is acknowledged, where the
-- setting is otherwise; until its end. A mark that a crash undid would be minted
-- twice. Internal.
CREATE OR REPLACE FUNCTION sqlfence.durable() RETURNS pg_catalog.void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
BEGIN
	IF pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off' THEN
		PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
	END IF;
END
$sqlfence$;

-- enter takes the turnstile exclusively and then locks the row of leases, if
-- there is one. It waits at most for wait in all, and raises 55P03 if that is
-- spent; 0 means that it does not wait. Internal: see spent.
--
-- The SET clause gives lock_timeout back at the end, also inside a transaction of
-- the caller's, whatever the body sets it to.
CREATE OR REPLACE FUNCTION sqlfence.enter(resource pg_catalog.text, wait pg_catalog.interval) RETURNS pg_catalog.void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET lock_timeout = 0 AS $sqlfence$
#variable_conflict use_column
DECLARE
	key pg_catalog.int8 := pg_catalog.hashtextextended(enter.resource COLLATE pg_catalog."C", 0);
	key1 pg_catalog.int4 := (key OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4;
	key2 pg_catalog.int4 := ((key OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4;
	start pg_catalog.timestamptz := pg_catalog.clock_timestamp();
	ms pg_catalog.float8 := pg_catalog.date_part('epoch', enter.wait) OPERATOR(pg_catalog.*) 1000::pg_catalog.float8;
	rest pg_catalog.float8;
BEGIN
	IF ms IS NULL OR ms OPERATOR(pg_catalog.<) 0::pg_catalog.float8 THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: the wait is null or negative';
	END IF;
	IF ms OPERATOR(pg_catalog.=) 0::pg_catalog.float8 THEN
		IF NOT pg_catalog.pg_try_advisory_xact_lock(key1, key2) THEN
			RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'sqlfence: the turnstile is not free';
		END IF;
		PERFORM FROM sqlfence.leases AS l
		WHERE l.resource OPERATOR(pg_catalog.=) (enter.resource COLLATE pg_catalog."C") FOR UPDATE NOWAIT;
		RETURN;
	END IF;
	-- lock_timeout is a number of milliseconds of 31 bits, and 0 would mean for ever.
	PERFORM pg_catalog.set_config('lock_timeout',
		GREATEST(1, LEAST(2147483647::pg_catalog.float8, pg_catalog.ceil(ms)))::pg_catalog.int4::pg_catalog.text, true);
	PERFORM pg_catalog.pg_advisory_xact_lock(key1, key2);
	rest := ms OPERATOR(pg_catalog.-) (1000::pg_catalog.float8 OPERATOR(pg_catalog.*)
		pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) start));
	PERFORM pg_catalog.set_config('lock_timeout',
		GREATEST(1, LEAST(2147483647::pg_catalog.float8, pg_catalog.ceil(rest)))::pg_catalog.int4::pg_catalog.text, true);
	PERFORM FROM sqlfence.leases AS l
	WHERE l.resource OPERATOR(pg_catalog.=) (enter.resource COLLATE pg_catalog."C") FOR UPDATE;
END
$sqlfence$;

-- newest_floor is the floor for a transaction whose snapshot may be older: it waits for
-- an open purge until wait is over since start, else 55P03. Internal.
CREATE OR REPLACE FUNCTION sqlfence.newest_floor(wait pg_catalog.interval, start pg_catalog.timestamptz) RETURNS pg_catalog.int8
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET lock_timeout = 0 AS $sqlfence$
#variable_conflict use_column
DECLARE
	ms pg_catalog.float8 := 1000::pg_catalog.float8 OPERATOR(pg_catalog.*) pg_catalog.date_part('epoch',
		newest_floor.wait OPERATOR(pg_catalog.-) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) newest_floor.start));
	floor pg_catalog.int8;
BEGIN
	IF ms OPERATOR(pg_catalog.<=) 0::pg_catalog.float8 THEN
		SELECT m.floor INTO floor FROM sqlfence.meta AS m FOR SHARE NOWAIT;
	ELSE
		PERFORM pg_catalog.set_config('lock_timeout',
			GREATEST(1, LEAST(2147483647::pg_catalog.float8, pg_catalog.ceil(ms)))::pg_catalog.int4::pg_catalog.text, true);
		SELECT m.floor INTO floor FROM sqlfence.meta AS m FOR SHARE;
	END IF;
	RETURN floor;
END
$sqlfence$;

-- spent raises the error of a spent wait. Internal.
CREATE OR REPLACE FUNCTION sqlfence.spent(resource pg_catalog.text) RETURNS pg_catalog.void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
BEGIN
	RAISE EXCEPTION USING ERRCODE = '57014', DETAIL = 'sqlfence: wait bound spent',
		MESSAGE = pg_catalog.format('sqlfence: wait bound spent: open guarded transactions hold the fence: resource=%s',
			spent.resource),
		HINT = 'SELECT * FROM sqlfence.blockers(resource) names them.';
END
$sqlfence$;

-- unseen raises 40001 if there is a lease that the snapshot of a REPEATABLE READ
-- or SERIALIZABLE transaction does not show, and leaves nothing behind. Internal.
CREATE OR REPLACE FUNCTION sqlfence.unseen(resource pg_catalog.text) RETURNS pg_catalog.void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
#variable_conflict use_column
BEGIN
	INSERT INTO sqlfence.leases (resource, epoch, grant_id) VALUES (unseen.resource, 1, 0)
	ON CONFLICT (resource) DO NOTHING;
	RAISE EXCEPTION USING ERRCODE = 'SF999', MESSAGE = 'sqlfence: undo';
EXCEPTION WHEN SQLSTATE 'SF999' THEN
	NULL;
END
$sqlfence$;

-- judge says what a claim of owner to a lease is worth at the instant now:
-- not_owner, lapsed, epoch_mismatch or ok, in this order. Internal.
CREATE OR REPLACE FUNCTION sqlfence.judge(
	now pg_catalog.timestamptz, owner pg_catalog.text, epoch pg_catalog.int8, grant_id pg_catalog.int8,
	lease_owner pg_catalog.text, lease_epoch pg_catalog.int8, lease_grant pg_catalog.int8,
	lease_expires pg_catalog.timestamptz, mark pg_catalog.int8, mark_grant pg_catalog.int8
) RETURNS pg_catalog.text
LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
BEGIN
	IF lease_owner IS NULL
			OR (lease_owner COLLATE pg_catalog."C") OPERATOR(pg_catalog.<>) (judge.owner COLLATE pg_catalog."C") THEN
		RETURN 'not_owner';
	ELSIF lease_expires OPERATOR(pg_catalog.<=) judge.now THEN
		RETURN 'lapsed';
	ELSIF lease_epoch OPERATOR(pg_catalog.=) judge.epoch AND lease_grant OPERATOR(pg_catalog.=) judge.grant_id
			AND mark OPERATOR(pg_catalog.=) judge.epoch AND mark_grant OPERATOR(pg_catalog.=) judge.grant_id THEN
		RETURN 'ok';
	END IF;
	RETURN 'epoch_mismatch';
END
$sqlfence$;

-- renew_one is renew without its checks of the input. With skip it reports busy
-- where another transaction has the row locked. Internal.
CREATE OR REPLACE FUNCTION sqlfence.renew_one(
	resource pg_catalog.text, owner pg_catalog.text, epoch pg_catalog.int8, grant_id pg_catalog.int8,
	ttl pg_catalog.interval, skip pg_catalog.bool,
	OUT outcome pg_catalog.text, OUT expires_at pg_catalog.timestamptz,
	OUT holder pg_catalog.text, OUT lease_epoch pg_catalog.int8, OUT high_water pg_catalog.int8
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
#variable_conflict use_column
DECLARE
	fresh pg_catalog.bool := pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ');
	lease_grant pg_catalog.int8;
	lease_expires pg_catalog.timestamptz;
	mark_grant pg_catalog.int8;
	locked pg_catalog.bool;
	now pg_catalog.timestamptz;
BEGIN
	-- The row as it was last committed: a refusal takes no lock.
	SELECT l.owner, l.epoch, l.grant_id, l.expires_at, f.high_water, f.grant_id
	INTO holder, lease_epoch, lease_grant, lease_expires, high_water, mark_grant
	FROM sqlfence.leases AS l
	LEFT JOIN sqlfence.fences AS f ON f.resource OPERATOR(pg_catalog.=) l.resource
	WHERE l.resource OPERATOR(pg_catalog.=) (renew_one.resource COLLATE pg_catalog."C");
	IF fresh THEN
		outcome := sqlfence.judge(pg_catalog.clock_timestamp(), renew_one.owner, renew_one.epoch, renew_one.grant_id,
			holder, lease_epoch, lease_grant, lease_expires, high_water, mark_grant);
		IF outcome OPERATOR(pg_catalog.<>) 'ok' THEN
			RETURN;
		END IF;
	ELSIF lease_epoch IS NULL THEN
		PERFORM sqlfence.unseen(renew_one.resource);
		outcome := 'not_owner';
		RETURN;
	END IF;

	IF renew_one.skip THEN
		SELECT true INTO locked FROM sqlfence.leases AS l
		WHERE l.resource OPERATOR(pg_catalog.=) (renew_one.resource COLLATE pg_catalog."C") FOR UPDATE SKIP LOCKED;
		IF locked IS NULL THEN
			outcome := 'busy';
			RETURN;
		END IF;
	ELSE
		PERFORM FROM sqlfence.leases AS l
		WHERE l.resource OPERATOR(pg_catalog.=) (renew_one.resource COLLATE pg_catalog."C") FOR UPDATE;
	END IF;
	SELECT l.owner, l.epoch, l.grant_id, l.expires_at INTO holder, lease_epoch, lease_grant, lease_expires
	FROM sqlfence.leases AS l
	WHERE l.resource OPERATOR(pg_catalog.=) (renew_one.resource COLLATE pg_catalog."C");
	IF fresh THEN
		SELECT f.high_water, f.grant_id INTO high_water, mark_grant FROM sqlfence.fences AS f
		WHERE f.resource OPERATOR(pg_catalog.=) (renew_one.resource COLLATE pg_catalog."C");
	ELSE
		SELECT f.high_water, f.grant_id INTO high_water, mark_grant FROM sqlfence.fences AS f
		WHERE f.resource OPERATOR(pg_catalog.=) (renew_one.resource COLLATE pg_catalog."C") FOR SHARE;
	END IF;
	now := pg_catalog.clock_timestamp();
	outcome := sqlfence.judge(now, renew_one.owner, renew_one.epoch, renew_one.grant_id,
		holder, lease_epoch, lease_grant, lease_expires, high_water, mark_grant);
	IF outcome OPERATOR(pg_catalog.=) 'ok' THEN
		expires_at := now OPERATOR(pg_catalog.+) renew_one.ttl;
		UPDATE sqlfence.leases AS l SET expires_at = renew_one.expires_at
		WHERE l.resource OPERATOR(pg_catalog.=) (renew_one.resource COLLATE pg_catalog."C");
	END IF;
END
$sqlfence$;

-- acquire makes one attempt to own a resource until ttl from now. It does not wait
-- for a live holder; it waits at most for wait for open guarded transactions
-- of the former owner (0: not at all), else 57014.
--   outcome   ok: epoch, grant_id and expires_at are the new lease's
--             held: holder and remaining tell by whom and for how long; nothing
--             was written and no lock is kept
--   reentry   what happens where owner itself is the holder: new (a new epoch,
--             which fences the old token), refuse (held), extend (the token is
--             kept and the expiry moves)
--   request   the grant to use, for a caller that may have to abandon it; null
--             for a new one
--   least_epoch  a new grant's epoch is not below it, and a kept token neither
-- The lease is safe to use once the transaction has committed, not before.
CREATE OR REPLACE FUNCTION sqlfence.acquire(
	resource pg_catalog.text, owner pg_catalog.text, ttl pg_catalog.interval,
	wait pg_catalog.interval DEFAULT '10 s'::pg_catalog.interval,
	reentry pg_catalog.text DEFAULT 'new'::pg_catalog.text,
	request pg_catalog.int8 DEFAULT NULL::pg_catalog.int8,
	least_epoch pg_catalog.int8 DEFAULT 0::pg_catalog.int8,
	OUT outcome pg_catalog.text, OUT epoch pg_catalog.int8, OUT grant_id pg_catalog.int8,
	OUT expires_at pg_catalog.timestamptz, OUT holder pg_catalog.text, OUT remaining pg_catalog.interval
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
#variable_conflict use_column
DECLARE
	fresh pg_catalog.bool := pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ');
	life pg_catalog.interval := sqlfence.span(acquire.ttl);
	now pg_catalog.timestamptz;
	lease_epoch pg_catalog.int8;
	lease_grant pg_catalog.int8;
	lease_expires pg_catalog.timestamptz;
	mark pg_catalog.int8;
	mark_grant pg_catalog.int8;
	floor pg_catalog.int8;
	start pg_catalog.timestamptz := pg_catalog.clock_timestamp();
	top pg_catalog.int8;
	mine pg_catalog.bool;
BEGIN
	PERFORM sqlfence.check_name('resource', acquire.resource);
	PERFORM sqlfence.check_name('owner', acquire.owner);
	IF acquire.reentry IS NULL OR (acquire.reentry OPERATOR(pg_catalog.<>) 'new'
			AND acquire.reentry OPERATOR(pg_catalog.<>) 'refuse' AND acquire.reentry OPERATOR(pg_catalog.<>) 'extend') THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: reentry is not new, refuse or extend';
	END IF;
	IF acquire.request OPERATOR(pg_catalog.=) 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: request 0';
	END IF;
	IF acquire.least_epoch IS NULL OR acquire.least_epoch OPERATOR(pg_catalog.<) 0::pg_catalog.int8 THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: the least epoch is null or negative';
	END IF;
	IF acquire.wait IS NULL OR acquire.wait OPERATOR(pg_catalog.<) '0'::pg_catalog.interval THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: the wait is null or negative';
	END IF;

	-- First without a lock, so that those who poll a held resource disturb nobody.
	SELECT l.owner, l.epoch, l.grant_id, l.expires_at INTO holder, lease_epoch, lease_grant, lease_expires
	FROM sqlfence.leases AS l
	WHERE l.resource OPERATOR(pg_catalog.=) (acquire.resource COLLATE pg_catalog."C");
	now := pg_catalog.clock_timestamp();
	IF holder IS NOT NULL AND lease_expires OPERATOR(pg_catalog.>) now THEN
		mine := (holder COLLATE pg_catalog."C") OPERATOR(pg_catalog.=) (acquire.owner COLLATE pg_catalog."C")
			AND acquire.reentry OPERATOR(pg_catalog.<>) 'refuse';
		IF NOT mine THEN
			outcome := 'held';
			remaining := lease_expires OPERATOR(pg_catalog.-) now;
			RETURN;
		END IF;
		IF acquire.reentry OPERATOR(pg_catalog.=) 'extend'
				AND lease_epoch OPERATOR(pg_catalog.>=) acquire.least_epoch THEN
			-- A renewal: it does not have to wait for the owner's own guarded writes.
			SELECT r.outcome, r.expires_at INTO outcome, expires_at
			FROM sqlfence.renew_one(acquire.resource, acquire.owner, lease_epoch, lease_grant, life, true) AS r;
			IF outcome OPERATOR(pg_catalog.=) 'ok' THEN
				epoch := lease_epoch;
				grant_id := lease_grant;
				holder := NULL;
				remaining := life;
				RETURN;
			END IF;
			outcome := NULL;
			expires_at := NULL;
		END IF;
	END IF;

	BEGIN
		PERFORM sqlfence.enter(acquire.resource, acquire.wait);
		-- All reads from here on are later statements than the lock.
		SELECT l.owner, l.epoch, l.grant_id, l.expires_at INTO holder, lease_epoch, lease_grant, lease_expires
		FROM sqlfence.leases AS l
		WHERE l.resource OPERATOR(pg_catalog.=) (acquire.resource COLLATE pg_catalog."C");
		IF fresh THEN
			SELECT f.high_water, f.grant_id INTO mark, mark_grant FROM sqlfence.fences AS f
			WHERE f.resource OPERATOR(pg_catalog.=) (acquire.resource COLLATE pg_catalog."C");
			SELECT m.floor INTO floor FROM sqlfence.meta AS m;
		ELSE
			SELECT f.high_water, f.grant_id INTO mark, mark_grant FROM sqlfence.fences AS f
			WHERE f.resource OPERATOR(pg_catalog.=) (acquire.resource COLLATE pg_catalog."C") FOR UPDATE;
			floor := sqlfence.newest_floor(acquire.wait, start);
		END IF;
		IF floor IS NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'SF005', MESSAGE = 'sqlfence: the row of sqlfence.meta is missing';
		END IF;
		now := pg_catalog.clock_timestamp();
		mine := false;
		IF holder IS NOT NULL AND lease_expires OPERATOR(pg_catalog.>) now THEN
			mine := (holder COLLATE pg_catalog."C") OPERATOR(pg_catalog.=) (acquire.owner COLLATE pg_catalog."C")
				AND acquire.reentry OPERATOR(pg_catalog.<>) 'refuse';
			IF NOT mine THEN
				RAISE EXCEPTION USING ERRCODE = 'SF999', MESSAGE = 'sqlfence: undo';
			END IF;
		END IF;
		IF acquire.request IS NOT NULL THEN
			-- Whoever abandons this request inserts the same key: one of the two
			-- waits for the other and then sees it, under any isolation level.
			INSERT INTO sqlfence.abandoned (request, at) VALUES (acquire.request, now)
			ON CONFLICT (request) DO NOTHING;
			IF NOT FOUND THEN
				RAISE EXCEPTION USING ERRCODE = '57014', MESSAGE = 'sqlfence: the request to acquire was abandoned';
			END IF;
			DELETE FROM sqlfence.abandoned AS a WHERE a.request OPERATOR(pg_catalog.=) acquire.request;
		END IF;
		expires_at := now OPERATOR(pg_catalog.+) life;
		IF mine AND acquire.reentry OPERATOR(pg_catalog.=) 'extend'
				AND lease_epoch OPERATOR(pg_catalog.>=) acquire.least_epoch
				AND mark OPERATOR(pg_catalog.=) lease_epoch AND mark_grant OPERATOR(pg_catalog.=) lease_grant THEN
			epoch := lease_epoch;
			grant_id := lease_grant;
			UPDATE sqlfence.leases AS l SET expires_at = acquire.expires_at
			WHERE l.resource OPERATOR(pg_catalog.=) (acquire.resource COLLATE pg_catalog."C");
		ELSE
			top := GREATEST(COALESCE(lease_epoch, 0), COALESCE(mark, 0), floor,
				acquire.least_epoch OPERATOR(pg_catalog.-) 1::pg_catalog.int8);
			IF top OPERATOR(pg_catalog.=) 9223372036854775807 THEN
				RAISE EXCEPTION USING ERRCODE = 'SF004', MESSAGE = pg_catalog.format(
					'sqlfence: epochs exhausted: resource=%s', acquire.resource);
			END IF;
			epoch := top OPERATOR(pg_catalog.+) 1;
			grant_id := COALESCE(acquire.request, sqlfence.new_grant());
			PERFORM sqlfence.durable();
			INSERT INTO sqlfence.leases AS l (resource, owner, epoch, grant_id, expires_at, freed_at)
			VALUES (acquire.resource, acquire.owner, acquire.epoch, acquire.grant_id, acquire.expires_at, NULL)
			ON CONFLICT (resource) DO UPDATE SET owner = EXCLUDED.owner, epoch = EXCLUDED.epoch,
				grant_id = EXCLUDED.grant_id, expires_at = EXCLUDED.expires_at, freed_at = NULL;
			INSERT INTO sqlfence.fences AS f (resource, high_water, grant_id)
			VALUES (acquire.resource, acquire.epoch, acquire.grant_id)
			ON CONFLICT (resource) DO UPDATE SET high_water = EXCLUDED.high_water, grant_id = EXCLUDED.grant_id;
		END IF;
		outcome := 'ok';
		holder := NULL;
		remaining := life;
	EXCEPTION
		WHEN lock_not_available THEN
			PERFORM sqlfence.spent(acquire.resource);
		WHEN SQLSTATE 'SF999' THEN
			-- The locks are given back with the block, also inside a caller's transaction.
			outcome := 'held';
			remaining := lease_expires OPERATOR(pg_catalog.-) now;
	END;
END
$sqlfence$;

-- abandon makes sure that a request to acquire (the grant it asked for) or to
-- advance does not take effect any more: a lease that it was granted is released,
-- and if it is still on its way it will be refused. outcome: released, or ok where there was
-- no such lease. It waits at most for wait, else 57014.
--
-- It locks no row of leases before the turnstile, and its key of abandoned is
-- wanted by that one request alone: it can be part of no circle of waiters.
CREATE OR REPLACE FUNCTION sqlfence.abandon(
	resource pg_catalog.text, request pg_catalog.int8,
	wait pg_catalog.interval DEFAULT '1 s'::pg_catalog.interval,
	OUT outcome pg_catalog.text
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET lock_timeout = 0 AS $sqlfence$
#variable_conflict use_column
DECLARE
	fresh pg_catalog.bool := pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ');
	ms pg_catalog.float8 := pg_catalog.date_part('epoch', abandon.wait) OPERATOR(pg_catalog.*) 1000::pg_catalog.float8;
	lease_owner pg_catalog.text;
	lease_epoch pg_catalog.int8;
	lease_grant pg_catalog.int8;
BEGIN
	PERFORM sqlfence.check_token(abandon.resource, 1::pg_catalog.int8, abandon.request);
	IF ms IS NULL OR ms OPERATOR(pg_catalog.<) 0::pg_catalog.float8 THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: the wait is null or negative';
	END IF;
	PERFORM pg_catalog.set_config('lock_timeout',
		GREATEST(1, LEAST(2147483647::pg_catalog.float8, pg_catalog.ceil(ms)))::pg_catalog.int4::pg_catalog.text, true);
	BEGIN
		-- Waits for the request if that is about to be granted.
		INSERT INTO sqlfence.abandoned (request, at) VALUES (abandon.request, pg_catalog.clock_timestamp())
		ON CONFLICT (request) DO NOTHING;
		IF fresh THEN
			SELECT l.owner, l.epoch, l.grant_id INTO lease_owner, lease_epoch, lease_grant FROM sqlfence.leases AS l
			WHERE l.resource OPERATOR(pg_catalog.=) (abandon.resource COLLATE pg_catalog."C");
		ELSE
			SELECT l.owner, l.epoch, l.grant_id INTO lease_owner, lease_epoch, lease_grant FROM sqlfence.leases AS l
			WHERE l.resource OPERATOR(pg_catalog.=) (abandon.resource COLLATE pg_catalog."C") FOR UPDATE;
			IF lease_epoch IS NULL THEN
				PERFORM sqlfence.unseen(abandon.resource);
			END IF;
		END IF;
	EXCEPTION WHEN lock_not_available THEN
		PERFORM sqlfence.spent(abandon.resource);
	END;
	outcome := 'ok';
	IF lease_owner IS NOT NULL AND lease_grant OPERATOR(pg_catalog.=) abandon.request THEN
		SELECT r.outcome INTO outcome
		FROM sqlfence.release(abandon.resource, lease_owner, lease_epoch, lease_grant, abandon.wait) AS r;
		outcome := CASE WHEN outcome OPERATOR(pg_catalog.=) 'ok' THEN 'released' ELSE 'ok' END;
	END IF;
END
$sqlfence$;

-- renew moves the expiry of a lease to ttl from now. It waits at most for wait for
-- another transaction that has the lease's row locked (0: not at all); it never
-- waits for guarded transactions. Its commit is as durable as the session's
-- setting makes it.
--   outcome   ok: expires_at is the new expiry
--             not_owner, lapsed, epoch_mismatch: lost; holder, lease_epoch and
--             high_water tell what was found
--             busy: the wait is spent and nothing is known
CREATE OR REPLACE FUNCTION sqlfence.renew(
	resource pg_catalog.text, owner pg_catalog.text, epoch pg_catalog.int8, grant_id pg_catalog.int8,
	ttl pg_catalog.interval, wait pg_catalog.interval DEFAULT '1 s'::pg_catalog.interval,
	OUT outcome pg_catalog.text, OUT expires_at pg_catalog.timestamptz,
	OUT holder pg_catalog.text, OUT lease_epoch pg_catalog.int8, OUT high_water pg_catalog.int8
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET lock_timeout = 0 AS $sqlfence$
#variable_conflict use_column
DECLARE
	life pg_catalog.interval := sqlfence.span(renew.ttl);
	ms pg_catalog.float8 := pg_catalog.date_part('epoch', renew.wait) OPERATOR(pg_catalog.*) 1000::pg_catalog.float8;
BEGIN
	PERFORM sqlfence.check_token(renew.resource, renew.epoch, renew.grant_id);
	PERFORM sqlfence.check_name('owner', renew.owner);
	IF ms IS NULL OR ms OPERATOR(pg_catalog.<) 0::pg_catalog.float8 THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: the wait is null or negative';
	END IF;
	PERFORM pg_catalog.set_config('lock_timeout',
		GREATEST(1, LEAST(2147483647::pg_catalog.float8, pg_catalog.ceil(ms)))::pg_catalog.int4::pg_catalog.text, true);
	BEGIN
		SELECT r.outcome, r.expires_at, r.holder, r.lease_epoch, r.high_water
		INTO outcome, expires_at, holder, lease_epoch, high_water
		FROM sqlfence.renew_one(renew.resource, renew.owner, renew.epoch, renew.grant_id, life,
			ms OPERATOR(pg_catalog.=) 0::pg_catalog.float8) AS r;
	EXCEPTION WHEN lock_not_available THEN
		outcome := 'busy';
	END;
END
$sqlfence$;

-- renew_batch renews many leases in one statement, each as renew does with a wait
-- of 0, in the order of the resources' names, so that two batches never wait for
-- each other in a circle; position is the place in the arrays, from 1. All arrays
-- are of one length and hold no null.
CREATE OR REPLACE FUNCTION sqlfence.renew_batch(
	resources pg_catalog.text[], owners pg_catalog.text[], epochs pg_catalog.int8[], grant_ids pg_catalog.int8[],
	ttls pg_catalog.interval[]
) RETURNS TABLE (
	"position" pg_catalog.int8, outcome pg_catalog.text, expires_at pg_catalog.timestamptz,
	holder pg_catalog.text, lease_epoch pg_catalog.int8, high_water pg_catalog.int8
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
#variable_conflict use_column
DECLARE
	n pg_catalog.int4 := pg_catalog.cardinality(renew_batch.resources);
	r_resource pg_catalog.text;
	r_owner pg_catalog.text;
	r_epoch pg_catalog.int8;
	r_grant pg_catalog.int8;
	r_life pg_catalog.interval;
BEGIN
	IF n OPERATOR(pg_catalog.=) pg_catalog.cardinality(renew_batch.owners)
			AND n OPERATOR(pg_catalog.=) pg_catalog.cardinality(renew_batch.epochs)
			AND n OPERATOR(pg_catalog.=) pg_catalog.cardinality(renew_batch.grant_ids)
			AND n OPERATOR(pg_catalog.=) pg_catalog.cardinality(renew_batch.ttls) THEN
	ELSE
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: arrays that are null or differ in length';
	END IF;
	FOR r_resource, r_owner, r_epoch, r_grant, r_life, "position" IN
		SELECT c.resource, c.owner, c.epoch, c.grant_id, c.ttl, c.ordinality
		FROM ROWS FROM (pg_catalog.unnest(renew_batch.resources), pg_catalog.unnest(renew_batch.owners),
			pg_catalog.unnest(renew_batch.epochs), pg_catalog.unnest(renew_batch.grant_ids),
			pg_catalog.unnest(renew_batch.ttls))
			WITH ORDINALITY AS c (resource, owner, epoch, grant_id, ttl, ordinality)
		ORDER BY c.resource COLLATE pg_catalog."C"
	LOOP
		PERFORM sqlfence.check_token(r_resource, r_epoch, r_grant);
		PERFORM sqlfence.check_name('owner', r_owner);
		r_life := sqlfence.span(r_life);
		SELECT r.outcome, r.expires_at, r.holder, r.lease_epoch, r.high_water
		INTO outcome, expires_at, holder, lease_epoch, high_water
		FROM sqlfence.renew_one(r_resource, r_owner, r_epoch, r_grant, r_life, true) AS r;
		RETURN NEXT;
	END LOOP;
END
$sqlfence$;

-- watch makes release tell this session, by a notification on the channel
-- sqlfence_released, whose payload is the resource; the session has to LISTEN. It
-- is false if a release is just under way: try again. What it takes is a lock of
-- the session, shared by those who watch: it is for a connection of one's own,
-- not one of a pool. A resource that nobody watches is released without a
-- notification, because those let commits of the whole server wait for each other.
CREATE OR REPLACE FUNCTION sqlfence.watch(resource pg_catalog.text) RETURNS pg_catalog.bool
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
DECLARE
	key pg_catalog.int8 := pg_catalog.hashtextextended(watch.resource COLLATE pg_catalog."C", 1);
BEGIN
	RETURN pg_catalog.pg_try_advisory_lock_shared((key OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4,
		((key OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4);
END
$sqlfence$;

-- unwatch ends one watch of this session.
CREATE OR REPLACE FUNCTION sqlfence.unwatch(resource pg_catalog.text) RETURNS pg_catalog.bool
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
DECLARE
	key pg_catalog.int8 := pg_catalog.hashtextextended(unwatch.resource COLLATE pg_catalog."C", 1);
BEGIN
	RETURN pg_catalog.pg_advisory_unlock_shared((key OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4,
		((key OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4);
END
$sqlfence$;

-- tell notifies whoever watches the resource, once the transaction has committed.
-- Internal.
CREATE OR REPLACE FUNCTION sqlfence.tell(resource pg_catalog.text) RETURNS pg_catalog.void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
DECLARE
	key pg_catalog.int8 := pg_catalog.hashtextextended(tell.resource COLLATE pg_catalog."C", 1);
BEGIN
	IF NOT pg_catalog.pg_try_advisory_xact_lock((key OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4,
			((key OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4) THEN
		PERFORM pg_catalog.pg_notify('sqlfence_released', tell.resource);
	END IF;
END
$sqlfence$;

-- ask asks the holder of a resource, if it listens, to step down: a notification
-- on the channel sqlfence_asked, whose payload is the resource.
CREATE OR REPLACE FUNCTION sqlfence.ask(resource pg_catalog.text) RETURNS pg_catalog.bool
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
BEGIN
	PERFORM sqlfence.check_name('resource', ask.resource);
	PERFORM pg_catalog.pg_notify('sqlfence_asked', ask.resource);
	RETURN true;
END
$sqlfence$;

-- release makes a resource FREE. Epoch and mark grow by one and the mark gets a
-- grant that nobody has, so that no token passes any more (SF004 where the epoch
-- is the largest: such a lease can only lapse). It waits at most for wait for the
-- owner's own open guarded transactions (0: not at all), else 57014. outcome: ok;
-- not_owner, lapsed, epoch_mismatch as renew, with nothing written and no lock
-- kept.
CREATE OR REPLACE FUNCTION sqlfence.release(
	resource pg_catalog.text, owner pg_catalog.text, epoch pg_catalog.int8, grant_id pg_catalog.int8,
	wait pg_catalog.interval DEFAULT '10 s'::pg_catalog.interval,
	OUT outcome pg_catalog.text,
	OUT holder pg_catalog.text, OUT lease_epoch pg_catalog.int8, OUT high_water pg_catalog.int8
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
#variable_conflict use_column
DECLARE
	fresh pg_catalog.bool := pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ');
	lease_grant pg_catalog.int8;
	lease_expires pg_catalog.timestamptz;
	mark_grant pg_catalog.int8;
	next_grant pg_catalog.int8;
	now pg_catalog.timestamptz;
BEGIN
	PERFORM sqlfence.check_token(release.resource, release.epoch, release.grant_id);
	PERFORM sqlfence.check_name('owner', release.owner);
	IF release.wait IS NULL OR release.wait OPERATOR(pg_catalog.<) '0'::pg_catalog.interval THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: the wait is null or negative';
	END IF;
	SELECT l.owner, l.epoch, l.grant_id, l.expires_at, f.high_water, f.grant_id
	INTO holder, lease_epoch, lease_grant, lease_expires, high_water, mark_grant
	FROM sqlfence.leases AS l
	LEFT JOIN sqlfence.fences AS f ON f.resource OPERATOR(pg_catalog.=) l.resource
	WHERE l.resource OPERATOR(pg_catalog.=) (release.resource COLLATE pg_catalog."C");
	IF fresh THEN
		outcome := sqlfence.judge(pg_catalog.clock_timestamp(), release.owner, release.epoch, release.grant_id,
			holder, lease_epoch, lease_grant, lease_expires, high_water, mark_grant);
		IF outcome OPERATOR(pg_catalog.<>) 'ok' THEN
			RETURN;
		END IF;
	ELSIF lease_epoch IS NULL THEN
		PERFORM sqlfence.unseen(release.resource);
		outcome := 'not_owner';
		RETURN;
	END IF;

	BEGIN
		PERFORM sqlfence.enter(release.resource, release.wait);
		SELECT l.owner, l.epoch, l.grant_id, l.expires_at INTO holder, lease_epoch, lease_grant, lease_expires
		FROM sqlfence.leases AS l
		WHERE l.resource OPERATOR(pg_catalog.=) (release.resource COLLATE pg_catalog."C");
		IF fresh THEN
			SELECT f.high_water, f.grant_id INTO high_water, mark_grant FROM sqlfence.fences AS f
			WHERE f.resource OPERATOR(pg_catalog.=) (release.resource COLLATE pg_catalog."C");
		ELSE
			SELECT f.high_water, f.grant_id INTO high_water, mark_grant FROM sqlfence.fences AS f
			WHERE f.resource OPERATOR(pg_catalog.=) (release.resource COLLATE pg_catalog."C") FOR UPDATE;
		END IF;
		now := pg_catalog.clock_timestamp();
		outcome := sqlfence.judge(now, release.owner, release.epoch, release.grant_id,
			holder, lease_epoch, lease_grant, lease_expires, high_water, mark_grant);
		IF outcome OPERATOR(pg_catalog.<>) 'ok' THEN
			RAISE EXCEPTION USING ERRCODE = 'SF999', MESSAGE = 'sqlfence: undo';
		END IF;
		IF lease_epoch OPERATOR(pg_catalog.=) 9223372036854775807 THEN
			RAISE EXCEPTION USING ERRCODE = 'SF004', MESSAGE = pg_catalog.format(
				'sqlfence: epochs exhausted: resource=%s', release.resource);
		END IF;
		lease_epoch := lease_epoch OPERATOR(pg_catalog.+) 1;
		next_grant := sqlfence.new_grant();
		PERFORM sqlfence.durable();
		UPDATE sqlfence.leases AS l SET owner = NULL, expires_at = NULL, freed_at = now,
			epoch = release.lease_epoch, grant_id = next_grant
		WHERE l.resource OPERATOR(pg_catalog.=) (release.resource COLLATE pg_catalog."C");
		UPDATE sqlfence.fences AS f SET high_water = release.lease_epoch, grant_id = next_grant
		WHERE f.resource OPERATOR(pg_catalog.=) (release.resource COLLATE pg_catalog."C");
		high_water := lease_epoch;
		holder := NULL;
		PERFORM sqlfence.tell(release.resource);
	EXCEPTION
		WHEN lock_not_available THEN
			PERFORM sqlfence.spent(release.resource);
		WHEN SQLSTATE 'SF999' THEN
			NULL;
	END;
END
$sqlfence$;

-- advance raises the mark to a token issued elsewhere. What it returns is the mark
-- afterwards: the token's own, or, with nothing written, the one that fences it.
-- It waits at most for wait for open guarded transactions (0: not at all), else
-- 57014. A token with a grant, at or below the floor of purge, for a resource
-- without a mark counts as fenced by the floor: it may have been minted here.
-- request is a number other than 0 for a caller that may have to abandon it; see
-- abandon.
CREATE OR REPLACE FUNCTION sqlfence.advance(
	resource pg_catalog.text, epoch pg_catalog.int8, grant_id pg_catalog.int8,
	wait pg_catalog.interval DEFAULT '10 s'::pg_catalog.interval,
	request pg_catalog.int8 DEFAULT NULL::pg_catalog.int8,
	OUT high_water pg_catalog.int8, OUT mark_grant pg_catalog.int8
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
#variable_conflict use_column
DECLARE
	fresh pg_catalog.bool := pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ');
	floor pg_catalog.int8;
	start pg_catalog.timestamptz := pg_catalog.clock_timestamp();
BEGIN
	PERFORM sqlfence.check_token(advance.resource, advance.epoch, advance.grant_id);
	IF advance.wait IS NULL OR advance.wait OPERATOR(pg_catalog.<) '0'::pg_catalog.interval THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: the wait is null or negative';
	END IF;
	SELECT f.high_water, f.grant_id INTO high_water, mark_grant FROM sqlfence.fences AS f
	WHERE f.resource OPERATOR(pg_catalog.=) (advance.resource COLLATE pg_catalog."C");
	-- A mark never goes back, so that even an old snapshot is right about a lower token.
	IF high_water OPERATOR(pg_catalog.>) advance.epoch
			OR (fresh AND high_water OPERATOR(pg_catalog.=) advance.epoch) THEN
		RETURN;
	END IF;

	BEGIN
		PERFORM sqlfence.enter(advance.resource, advance.wait);
		IF fresh THEN
			SELECT f.high_water, f.grant_id INTO high_water, mark_grant FROM sqlfence.fences AS f
			WHERE f.resource OPERATOR(pg_catalog.=) (advance.resource COLLATE pg_catalog."C");
			SELECT m.floor INTO floor FROM sqlfence.meta AS m;
		ELSE
			SELECT f.high_water, f.grant_id INTO high_water, mark_grant FROM sqlfence.fences AS f
			WHERE f.resource OPERATOR(pg_catalog.=) (advance.resource COLLATE pg_catalog."C") FOR UPDATE;
			floor := sqlfence.newest_floor(advance.wait, start);
		END IF;
		IF floor IS NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'SF005', MESSAGE = 'sqlfence: the row of sqlfence.meta is missing';
		END IF;
		IF high_water IS NULL AND advance.grant_id OPERATOR(pg_catalog.<>) 0
				AND advance.epoch OPERATOR(pg_catalog.<=) floor THEN
			high_water := floor;
			mark_grant := 0;
			IF NOT fresh THEN
				PERFORM sqlfence.unseen(advance.resource);
			END IF;
			RAISE EXCEPTION USING ERRCODE = 'SF999', MESSAGE = 'sqlfence: undo';
		END IF;
		IF high_water OPERATOR(pg_catalog.>=) advance.epoch THEN
			RAISE EXCEPTION USING ERRCODE = 'SF999', MESSAGE = 'sqlfence: undo';
		END IF;
		IF advance.request IS NOT NULL THEN
			-- As in acquire.
			INSERT INTO sqlfence.abandoned (request, at) VALUES (advance.request, pg_catalog.clock_timestamp())
			ON CONFLICT (request) DO NOTHING;
			IF NOT FOUND THEN
				RAISE EXCEPTION USING ERRCODE = '57014', MESSAGE = 'sqlfence: the request to advance was abandoned';
			END IF;
			DELETE FROM sqlfence.abandoned AS a WHERE a.request OPERATOR(pg_catalog.=) advance.request;
		END IF;
		PERFORM sqlfence.durable();
		INSERT INTO sqlfence.fences AS f (resource, high_water, grant_id, advanced)
		VALUES (advance.resource, advance.epoch, advance.grant_id, true)
		ON CONFLICT (resource) DO UPDATE SET high_water = EXCLUDED.high_water, grant_id = EXCLUDED.grant_id,
			advanced = true;
		high_water := advance.epoch;
		mark_grant := advance.grant_id;
	EXCEPTION
		WHEN lock_not_available THEN
			PERFORM sqlfence.spent(advance.resource);
		WHEN SQLSTATE 'SF999' THEN
			NULL;
	END;
END
$sqlfence$;

-- inspect returns the state of a resource in one row, waiting for no lock: status
-- is free, held or lapsed; a resource never seen is free, with epoch and
-- high_water 0. What it finds may be old when it arrives.
CREATE OR REPLACE FUNCTION sqlfence.inspect(
	resource pg_catalog.text,
	OUT status pg_catalog.text, OUT owner pg_catalog.text, OUT epoch pg_catalog.int8,
	OUT high_water pg_catalog.int8, OUT expires_at pg_catalog.timestamptz, OUT remaining pg_catalog.interval
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
#variable_conflict use_column
DECLARE
	now pg_catalog.timestamptz;
BEGIN
	-- One statement, so that lease and mark are of one moment.
	SELECT l.owner, COALESCE(l.epoch, 0), COALESCE(f.high_water, 0), l.expires_at
	INTO owner, epoch, high_water, expires_at
	FROM (SELECT inspect.resource COLLATE pg_catalog."C" AS resource) AS r
	LEFT JOIN sqlfence.leases AS l ON l.resource OPERATOR(pg_catalog.=) r.resource
	LEFT JOIN sqlfence.fences AS f ON f.resource OPERATOR(pg_catalog.=) r.resource;
	now := pg_catalog.clock_timestamp();
	remaining := pg_catalog.make_interval();
	IF owner IS NULL THEN
		status := 'free';
	ELSIF expires_at OPERATOR(pg_catalog.>) now THEN
		status := 'held';
		remaining := expires_at OPERATOR(pg_catalog.-) now;
	ELSE
		status := 'lapsed';
	END IF;
END
$sqlfence$;

-- inspect_prefix returns the state of up to max_rows resources whose names begin
-- with prefix and come after the name after, in the order of the names' bytes:
-- to page on, give the last name of the page before.
CREATE OR REPLACE FUNCTION sqlfence.inspect_prefix(
	prefix pg_catalog.text, after pg_catalog.text DEFAULT ''::pg_catalog.text,
	max_rows pg_catalog.int8 DEFAULT 1000::pg_catalog.int8
) RETURNS TABLE (
	resource pg_catalog.text, status pg_catalog.text, owner pg_catalog.text, epoch pg_catalog.int8,
	high_water pg_catalog.int8, expires_at pg_catalog.timestamptz, remaining pg_catalog.interval
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
#variable_conflict use_column
DECLARE
	now pg_catalog.timestamptz := pg_catalog.clock_timestamp();
BEGIN
	RETURN QUERY
	SELECT n.resource::pg_catalog.text,
		CASE WHEN l.owner IS NULL THEN 'free' WHEN l.expires_at OPERATOR(pg_catalog.>) now THEN 'held' ELSE 'lapsed' END,
		l.owner::pg_catalog.text, COALESCE(l.epoch, 0), COALESCE(f.high_water, 0), l.expires_at,
		CASE WHEN l.expires_at OPERATOR(pg_catalog.>) now THEN l.expires_at OPERATOR(pg_catalog.-) now
			ELSE pg_catalog.make_interval() END
	FROM (
		SELECT a.resource FROM sqlfence.leases AS a
		WHERE a.resource OPERATOR(pg_catalog.>=) (inspect_prefix.prefix COLLATE pg_catalog."C")
			AND a.resource OPERATOR(pg_catalog.>) (inspect_prefix.after COLLATE pg_catalog."C")
			AND pg_catalog.starts_with(a.resource, inspect_prefix.prefix COLLATE pg_catalog."C")
		UNION
		SELECT b.resource FROM sqlfence.fences AS b
		WHERE b.resource OPERATOR(pg_catalog.>=) (inspect_prefix.prefix COLLATE pg_catalog."C")
			AND b.resource OPERATOR(pg_catalog.>) (inspect_prefix.after COLLATE pg_catalog."C")
			AND pg_catalog.starts_with(b.resource, inspect_prefix.prefix COLLATE pg_catalog."C")
	) AS n
	LEFT JOIN sqlfence.leases AS l ON l.resource OPERATOR(pg_catalog.=) n.resource
	LEFT JOIN sqlfence.fences AS f ON f.resource OPERATOR(pg_catalog.=) n.resource
	ORDER BY n.resource LIMIT inspect_prefix.max_rows;
END
$sqlfence$;

-- blockers returns the sessions and prepared transactions that hold the turnstile
-- of a resource for guarded transactions, or for an operation in a transaction that
-- stays open without a word, and nobody who only queues for it or is about to be done.
-- prepared is the global identifier of a prepared transaction, which has no pid.
-- age is that of the transaction; null where the owner of this function may not
-- see it (GRANT pg_read_all_stats lets it).
CREATE OR REPLACE FUNCTION sqlfence.blockers(resource pg_catalog.text)
RETURNS TABLE (
	pid pg_catalog.int4, application_name pg_catalog.text, age pg_catalog.interval, prepared pg_catalog.text
) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
#variable_conflict use_column
DECLARE
	key pg_catalog.int8 := pg_catalog.hashtextextended(blockers.resource COLLATE pg_catalog."C", 0);
	key1 pg_catalog.oid := (key OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4::pg_catalog.oid;
	key2 pg_catalog.oid := ((key OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4::pg_catalog.oid;
	now pg_catalog.timestamptz := pg_catalog.clock_timestamp();
BEGIN
	RETURN QUERY
	SELECT k.pid, a.application_name::pg_catalog.text,
		now OPERATOR(pg_catalog.-) COALESCE(p.prepared, a.xact_start), p.gid::pg_catalog.text
	FROM pg_catalog.pg_locks AS k
	JOIN pg_catalog.pg_database AS d ON d.oid OPERATOR(pg_catalog.=) k.database
	LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid OPERATOR(pg_catalog.=) k.pid
	-- A prepared transaction has no pid; its own number is locked by the same holder.
	LEFT JOIN pg_catalog.pg_locks AS x ON k.pid IS NULL AND x.pid IS NULL
		AND x.virtualtransaction OPERATOR(pg_catalog.=) k.virtualtransaction
		AND x.locktype OPERATOR(pg_catalog.=) 'transactionid' AND x.mode OPERATOR(pg_catalog.=) 'ExclusiveLock'
	LEFT JOIN pg_catalog.pg_prepared_xacts AS p ON p.transaction OPERATOR(pg_catalog.=) x.transactionid
	WHERE k.locktype OPERATOR(pg_catalog.=) 'advisory' AND k.granted
		AND (k.mode OPERATOR(pg_catalog.=) 'ShareLock'
			OR k.pid IS NULL OR pg_catalog.starts_with(a.state, 'idle in transaction'))
		AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
		AND k.classid OPERATOR(pg_catalog.=) key1 AND k.objid OPERATOR(pg_catalog.=) key2
		AND k.objsubid OPERATOR(pg_catalog.=) 2::pg_catalog.int2
		AND (k.pid IS NULL OR k.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid())
	ORDER BY k.pid;
END
$sqlfence$;

-- evict ends the sessions that hold the turnstile of a resource for a transaction
-- that has been open for grace or longer, as blockers finds them at that moment,
-- and returns them; nobody's while another owner than the named one holds the
-- resource. The owner of this function has to be the sessions' role or a member
-- of pg_signal_backend, and to see their age, see blockers: whom it may not end
-- it passes over, as it does prepared transactions.
CREATE OR REPLACE FUNCTION sqlfence.evict(
	resource pg_catalog.text, owner pg_catalog.text, grace pg_catalog.interval
) RETURNS TABLE (pid pg_catalog.int4, application_name pg_catalog.text, age pg_catalog.interval)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
#variable_conflict use_column
DECLARE
	held pg_catalog.bool;
BEGIN
	PERFORM sqlfence.check_name('resource', evict.resource);
	PERFORM sqlfence.check_name('owner', evict.owner);
	IF evict.grace IS NULL OR evict.grace OPERATOR(pg_catalog.<) '0'::pg_catalog.interval THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: the grace is null or negative';
	END IF;
	SELECT l.expires_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
		AND (l.owner COLLATE pg_catalog."C") OPERATOR(pg_catalog.<>) (evict.owner COLLATE pg_catalog."C") INTO held
	FROM sqlfence.leases AS l
	WHERE l.resource OPERATOR(pg_catalog.=) (evict.resource COLLATE pg_catalog."C");
	IF held THEN
		RETURN;
	END IF;
	FOR pid, application_name, age IN
		SELECT b.pid, b.application_name, b.age FROM sqlfence.blockers(evict.resource) AS b
		WHERE b.pid IS NOT NULL AND b.age OPERATOR(pg_catalog.>=) evict.grace
	LOOP
		BEGIN
			IF pg_catalog.pg_terminate_backend(pid) THEN
				RETURN NEXT;
			END IF;
		EXCEPTION WHEN insufficient_privilege THEN
			NULL;
		END;
	END LOOP;
END
$sqlfence$;

-- purge drops up to max_rows resources that have been FREE or LAPSED for longer than
-- older_than, a thousand at most (each takes a lock in the server's shared table until
-- the transaction ends), and raises the floor above every epoch they minted; it
-- returns their number. A resource that is in use at the moment is left alone, and so
-- is one whose mark was ever advanced: its mark stands for tokens that no
-- floor knows. So is one whose epochs have passed 2^62: a floor there would take all
-- others to the end of theirs. Tokens of a purged resource are unregistered.
CREATE OR REPLACE FUNCTION sqlfence.purge(
	older_than pg_catalog.interval, max_rows pg_catalog.int8 DEFAULT 1000::pg_catalog.int8
) RETURNS pg_catalog.int8
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
#variable_conflict use_column
DECLARE
	cutoff pg_catalog.timestamptz := pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) purge.older_than;
	key pg_catalog.int8;
	candidate pg_catalog.text;
	top pg_catalog.int8;
	new_floor pg_catalog.int8;
	dropped pg_catalog.int8 := 0;
BEGIN
	IF purge.older_than IS NULL OR purge.older_than OPERATOR(pg_catalog.<) '0'::pg_catalog.interval
			OR purge.max_rows IS NULL OR purge.max_rows OPERATOR(pg_catalog.<) 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: purge';
	END IF;
	-- The row of meta before any turnstile, and turnstiles without waiting: no
	-- circle of waiters can come about.
	SELECT m.floor INTO new_floor FROM sqlfence.meta AS m FOR UPDATE;
	IF new_floor IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'SF005', MESSAGE = 'sqlfence: the row of sqlfence.meta is missing';
	END IF;
	FOR candidate IN
		SELECT l.resource FROM sqlfence.leases AS l
		JOIN sqlfence.fences AS f ON f.resource OPERATOR(pg_catalog.=) l.resource
		WHERE NOT f.advanced AND COALESCE(l.expires_at, l.freed_at) OPERATOR(pg_catalog.<) cutoff
			AND GREATEST(l.epoch, f.high_water) OPERATOR(pg_catalog.<=) 4611686018427387904
		LIMIT LEAST(purge.max_rows, 1000)
	LOOP
		key := pg_catalog.hashtextextended(candidate COLLATE pg_catalog."C", 0);
		CONTINUE WHEN NOT pg_catalog.pg_try_advisory_xact_lock(
			(key OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4,
			((key OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4);
		top := NULL;
		SELECT GREATEST(l.epoch, f.high_water) INTO top FROM sqlfence.leases AS l
		JOIN sqlfence.fences AS f ON f.resource OPERATOR(pg_catalog.=) l.resource
		WHERE l.resource OPERATOR(pg_catalog.=) (candidate COLLATE pg_catalog."C")
			AND NOT f.advanced AND COALESCE(l.expires_at, l.freed_at) OPERATOR(pg_catalog.<) cutoff
		FOR UPDATE SKIP LOCKED;
		CONTINUE WHEN top IS NULL OR top OPERATOR(pg_catalog.>) 4611686018427387904;
		DELETE FROM sqlfence.leases AS l WHERE l.resource OPERATOR(pg_catalog.=) (candidate COLLATE pg_catalog."C");
		DELETE FROM sqlfence.fences AS f WHERE f.resource OPERATOR(pg_catalog.=) (candidate COLLATE pg_catalog."C");
		new_floor := GREATEST(new_floor, top);
		dropped := dropped OPERATOR(pg_catalog.+) 1;
	END LOOP;
	IF dropped OPERATOR(pg_catalog.>) 0 THEN
		PERFORM sqlfence.durable();
		UPDATE sqlfence.meta AS m SET floor = new_floor WHERE new_floor OPERATOR(pg_catalog.>) m.floor;
	END IF;
	-- No request is still on its way after a day.
	DELETE FROM sqlfence.abandoned AS a WHERE a.request OPERATOR(pg_catalog.=) ANY (ARRAY(
		SELECT b.request FROM sqlfence.abandoned AS b
		WHERE b.at OPERATOR(pg_catalog.<) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) '1 day'::pg_catalog.interval)
		LIMIT 10000 FOR UPDATE SKIP LOCKED));
	RETURN dropped;
END
$sqlfence$;

-- arm has pass leave its token. Internal.
CREATE OR REPLACE FUNCTION sqlfence.arm() RETURNS pg_catalog.void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
BEGIN
	UPDATE sqlfence.meta AS m SET protects = true WHERE NOT m.protects;
END
$sqlfence$;

-- protected is the trigger of a protected table: it raises SF008 unless the
-- transaction has passed the fence, and has not rolled that back. What pass has left
-- is a claim that anybody can make, so the token is checked once more: for whoever has
-- passed that finds the turnstile had and the mark unmoved. Internal.
CREATE OR REPLACE FUNCTION sqlfence.protected() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER AS $sqlfence$
DECLARE
	claim pg_catalog.text := pg_catalog.current_setting('sqlfence.passed', true);
	epoch pg_catalog.text := pg_catalog.split_part(claim, '.', 1);
	grant_id pg_catalog.text := pg_catalog.split_part(claim, '.', 2);
BEGIN
	IF claim OPERATOR(pg_catalog.~) ('^[0-9]{1,19}[.]-?[0-9]{1,19}[.].' COLLATE pg_catalog."C") THEN
		IF sqlfence.pass(
				pg_catalog.substr(claim, pg_catalog.length(epoch) OPERATOR(pg_catalog.+) pg_catalog.length(grant_id) OPERATOR(pg_catalog.+) 3),
				epoch::pg_catalog.int8, grant_id::pg_catalog.int8) THEN
			RETURN NULL;
		END IF;
	END IF;
	IF EXISTS (SELECT FROM sqlfence.meta AS m WHERE NOT m.protects) THEN
		IF pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read ') THEN
			-- A dump of the table alone brings its trigger along.
			RAISE EXCEPTION USING ERRCODE = 'SF005', MESSAGE = pg_catalog.format(
				'sqlfence: %I.%I was protected in another database: call guard.Protect', TG_TABLE_SCHEMA, TG_TABLE_NAME);
		END IF;
		-- To a snapshot of before nothing was protected, and pass has left nothing.
		RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = pg_catalog.format(
			'sqlfence: %I.%I has been protected since this transaction began: run it again', TG_TABLE_SCHEMA, TG_TABLE_NAME);
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'SF008',
		MESSAGE = pg_catalog.format('sqlfence: protected: table=%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME),
		HINT = 'Write under a token, or SELECT sqlfence.pass(resource, epoch, grant) first, in the same transaction.';
END
$sqlfence$;

-- is_protected reports whether the trigger of a protected table is there, unchanged
-- and always on: a session that plays a replica (session_replication_role) fires no
-- others. Internal.
CREATE OR REPLACE FUNCTION sqlfence.is_protected(target pg_catalog.oid) RETURNS pg_catalog.bool
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
BEGIN
	RETURN EXISTS (SELECT FROM pg_catalog.pg_trigger AS g
		JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) g.tgrelid
		JOIN pg_catalog.pg_proc AS p ON p.oid OPERATOR(pg_catalog.=) g.tgfoid
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
		WHERE g.tgrelid OPERATOR(pg_catalog.=) is_protected.target
			AND g.tgname OPERATOR(pg_catalog.=) 'sqlfence_protected'::pg_catalog.name
			AND n.nspname OPERATOR(pg_catalog.=) 'sqlfence'::pg_catalog.name
			AND p.proname OPERATOR(pg_catalog.=) 'protected'::pg_catalog.name
			-- AFTER each statement; INSERT 4, DELETE 8, UPDATE 16, TRUNCATE 32.
			AND g.tgtype OPERATOR(pg_catalog.=) CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'f'::pg_catalog."char" THEN 28::pg_catalog.int2 ELSE 60::pg_catalog.int2 END
			AND g.tgqual IS NULL AND g.tgattr::pg_catalog.text OPERATOR(pg_catalog.=) ''
			AND g.tgenabled OPERATOR(pg_catalog.=) 'A'::pg_catalog."char");
END
$sqlfence$;

-- protect has the database itself refuse every write to the table, its partitions
-- and the tables that inherit from it that has not passed the fence, whoever sends
-- it and wherever it comes from: also COPY, TRUNCATE, a cascade of a foreign key,
-- and a function called from SELECT. A partition that is made or attached later is
-- protected by protecting the table once more, which also brings back a trigger that was
-- disabled or changed. It raises SF003 for a part of a table that is not protected:
-- a trigger fires for the table that a statement names. It runs with the caller's
-- rights, who must own the tables.
CREATE OR REPLACE FUNCTION sqlfence.protect(target pg_catalog.regclass) RETURNS pg_catalog.void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
#variable_conflict use_column
DECLARE
	one pg_catalog.text;
	events pg_catalog.text;
	present pg_catalog.bool;
	parent pg_catalog.text;
BEGIN
	IF protect.target IS NULL OR NOT EXISTS (SELECT FROM pg_catalog.pg_class AS c
			WHERE c.oid OPERATOR(pg_catalog.=) protect.target
			AND c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'p']::pg_catalog."char"[])) THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = 'sqlfence: invalid input: no table to protect';
	END IF;
	PERFORM sqlfence.arm();
	FOR one, events, present IN
		WITH RECURSIVE "tree" AS (
			SELECT protect.target::pg_catalog.oid AS id
			UNION
			SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN "tree" AS t ON t.id OPERATOR(pg_catalog.=) i.inhparent
		)
		SELECT pg_catalog.format('%I.%I', n.nspname, c.relname),
			-- Foreign tables take no trigger for TRUNCATE everywhere.
			CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'f'::pg_catalog."char" THEN '' ELSE ' OR TRUNCATE' END,
			EXISTS (SELECT FROM pg_catalog.pg_trigger AS g WHERE g.tgrelid OPERATOR(pg_catalog.=) c.oid
				AND g.tgname OPERATOR(pg_catalog.=) 'sqlfence_protected'::pg_catalog.name)
		FROM "tree" AS t
		JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) t.id
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
		WHERE NOT sqlfence.is_protected(c.oid) AND c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'p', 'f']::pg_catalog."char"[])
	LOOP
		IF present THEN
			EXECUTE 'DROP TRIGGER sqlfence_protected ON ' OPERATOR(pg_catalog.||) one;
		END IF;
		EXECUTE 'CREATE TRIGGER sqlfence_protected AFTER INSERT OR UPDATE OR DELETE' OPERATOR(pg_catalog.||) events OPERATOR(pg_catalog.||) ' ON '
			OPERATOR(pg_catalog.||) one OPERATOR(pg_catalog.||) ' FOR EACH STATEMENT EXECUTE FUNCTION sqlfence.protected()';
		EXECUTE 'ALTER TABLE ONLY ' OPERATOR(pg_catalog.||) one OPERATOR(pg_catalog.||) ' ENABLE ALWAYS TRIGGER sqlfence_protected';
	END LOOP;
	WITH RECURSIVE "tree" AS (
		SELECT protect.target::pg_catalog.oid AS id
		UNION
		SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN "tree" AS t ON t.id OPERATOR(pg_catalog.=) i.inhparent
	), "over" AS (
		SELECT t.id FROM "tree" AS t
		UNION
		SELECT i.inhparent FROM pg_catalog.pg_inherits AS i JOIN "over" AS o ON o.id OPERATOR(pg_catalog.=) i.inhrelid
	)
	SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) INTO parent FROM "over" AS o
	JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) o.id
	JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	WHERE NOT sqlfence.is_protected(c.oid) AND c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'p', 'f']::pg_catalog."char"[])
	LIMIT 1;
	IF parent IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'SF003', MESSAGE = pg_catalog.format(
			'sqlfence: invalid input: %s is written through %s too: protect that', protect.target, parent);
	END IF;
END
$sqlfence$;

-- unprotect takes the protection off the table, its partitions and its heirs.
CREATE OR REPLACE FUNCTION sqlfence.unprotect(target pg_catalog.regclass) RETURNS pg_catalog.void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER AS $sqlfence$
#variable_conflict use_column
DECLARE
	one pg_catalog.text;
BEGIN
	FOR one IN
		WITH RECURSIVE "tree" AS (
			SELECT unprotect.target::pg_catalog.oid AS id
			UNION
			SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN "tree" AS t ON t.id OPERATOR(pg_catalog.=) i.inhparent
		)
		SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) FROM "tree" AS t
		JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) t.id
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
		JOIN pg_catalog.pg_trigger AS g ON g.tgrelid OPERATOR(pg_catalog.=) c.oid
			AND g.tgname OPERATOR(pg_catalog.=) 'sqlfence_protected'::pg_catalog.name
	LOOP
		EXECUTE 'DROP TRIGGER sqlfence_protected ON ' OPERATOR(pg_catalog.||) one;
	END LOOP;
END
$sqlfence$;

REVOKE ALL ON SCHEMA sqlfence FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA sqlfence FROM PUBLIC;

-- Nor by default privileges (ALTER DEFAULT PRIVILEGES), of which a program that
-- migrates as one role and runs as another has plenty. What others may keep is SELECT,
-- and INSERT on nothing, which takes no row.
DO $sqlfence$
DECLARE
	grantee pg_catalog.text;
	relation pg_catalog.text;
	selects pg_catalog.bool;
	inserts pg_catalog.bool;
BEGIN
	FOR grantee IN
		SELECT pg_catalog.format('%I', r.rolname) FROM pg_catalog.pg_namespace AS n
		CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) AS a
		JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) a.grantee
		WHERE n.nspname OPERATOR(pg_catalog.=) 'sqlfence'::pg_catalog.name AND a.grantee OPERATOR(pg_catalog.<>) n.nspowner
			AND a.privilege_type OPERATOR(pg_catalog.=) 'CREATE'
		GROUP BY r.rolname
	LOOP
		EXECUTE pg_catalog.concat('REVOKE CREATE ON SCHEMA sqlfence FROM ', grantee, ' CASCADE');
	END LOOP;
	FOR grantee, relation, selects, inserts IN
		SELECT pg_catalog.format('%I', r.rolname), pg_catalog.format('sqlfence.%I', c.relname),
			pg_catalog.bool_or(a.privilege_type OPERATOR(pg_catalog.=) 'SELECT'),
			pg_catalog.bool_or(a.privilege_type OPERATOR(pg_catalog.=) 'INSERT' AND c.relname OPERATOR(pg_catalog.=) 'nothing'::pg_catalog.name)
		FROM pg_catalog.pg_class AS c
		JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
		CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS a
		JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) a.grantee
		WHERE n.nspname OPERATOR(pg_catalog.=) 'sqlfence'::pg_catalog.name AND a.grantee OPERATOR(pg_catalog.<>) c.relowner
			AND c.relkind OPERATOR(pg_catalog.=) 'r'::pg_catalog."char"
		GROUP BY r.rolname, c.relname
	LOOP
		EXECUTE pg_catalog.concat('REVOKE ALL ON ', relation, ' FROM ', grantee, ' CASCADE');
		IF selects THEN
			EXECUTE pg_catalog.concat('GRANT SELECT ON ', relation, ' TO ', grantee);
		END IF;
		IF inserts THEN
			EXECUTE pg_catalog.concat('GRANT INSERT ON ', relation, ' TO ', grantee);
		END IF;
	END LOOP;
END
$sqlfence$;

-- schema_version is the version of the schema. It comes last: where it is found,
-- all of the above is there. Its text is read from the catalog too, by sqlgen.
CREATE OR REPLACE FUNCTION sqlfence.schema_version() RETURNS pg_catalog.int4
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 1';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sqlfence FROM PUBLIC;
