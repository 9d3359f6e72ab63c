-- sqlfence: schema of version 1 for MariaDB 10.6 and later, and MySQL 8.0.29 and
-- later.
--
-- Its tables lie in the application's own database, beside the data that they
-- guard, so that a dump and a restore carry both. Run it there as one string over a
-- connection that takes several statements at once (multiStatements=true of
-- go-sql-driver), or statement by statement: each ends with a semicolon on a line
-- of its own (the mysql client: --delimiter=$'\n;\n'). It is idempotent. Whoever
-- runs it needs CREATE, CREATE VIEW, DROP (for views that are there already), CREATE
-- ROUTINE, SELECT, INSERT, UPDATE, DELETE and EXECUTE on the database, and must stay
-- an account of the server: views and procedures run with the rights of that account.
-- PROCESS, and on MySQL SELECT on performance_schema, let them name who blocks a
-- takeover. Accounts that use it need what sqlgen.Grants names.
--
-- Two tables carry everything: leases, written by each heartbeat, and fences,
-- written only when a mark moves. Guarded writes read fences alone, so that
-- heartbeats and guarded writes never meet.
--
-- A guarded write holds a shared lock on the row of its resource in fences until
-- its transaction ends; whatever moves the mark holds it exclusively. InnoDB lets
-- requests wait in the order of their arrival, so that a takeover waits for the
-- guarded transactions that were open when it began, and not for later ones. Order
-- of all locks: row of fences, row of leases; only purge has the row of meta first.
--
-- The operations are procedures, for three reasons. One operation is one round
-- trip. The application's account needs no right on the tables. And no connection
-- that is lost between two statements of an operation can leave half of it: what
-- the server has begun, it ends. It is sound to do so because the transaction is
-- the procedure's own: it begins one (READ COMMITTED, so that each statement sees
-- what was committed before it), commits it before it answers, and rolls it back
-- in a handler where anything fails. Only a KILL QUERY runs no handler; whoever
-- sends one closes the connection, which rolls back. Within a transaction of the
-- caller's a procedure takes part in it, behind a savepoint; it then reads with
-- locks only, because the snapshot may be old.
--
-- Reads go through views. A TEMPORARY table of a session takes the place of a table
-- of the same name, also within procedures, but not of the tables beneath a view;
-- and one with the name of a view holds a copy of the column at, which is not the
-- present: each read asks for that. A fence that is hidden so is closed.
--
-- Names are VARBINARY: compared byte for byte. Times are DATETIME(6) in UTC:
-- no session's time_zone has a say. Epochs end at 9223372036854775807 and never
-- wrap. Nothing here depends on the sql_mode or the character set of a session.
--
-- A denial is a row. What is raised (the errors carry numbers only; the caller
-- knows the names it sent):
--   SF003  invalid input
--   SF004  epochs exhausted
--   SF005  the schema is damaged, or hidden by a temporary table
--   SF006  the request to acquire was abandoned
--   SF007, 1205  the bounded wait for open guarded transactions is spent
--   SF011  a right is missing; the text is the GRANT

CREATE TABLE IF NOT EXISTS sqlfence_meta (
	only_row TINYINT NOT NULL PRIMARY KEY CHECK (only_row = 1),
	version BIGINT NOT NULL,
	-- No epoch is ever minted at or below floor: it stands for the rows that purge
	-- has dropped.
	floor BIGINT NOT NULL CHECK (floor >= 0)
) ENGINE = InnoDB
;

-- FREE: owner and expires_at are null. HELD until expires_at, LAPSED from then on.
-- freed_at is when it last became FREE.
CREATE TABLE IF NOT EXISTS sqlfence_leases (
	resource VARBINARY(255) NOT NULL PRIMARY KEY,
	owner VARBINARY(255),
	epoch BIGINT NOT NULL,
	grant_id BIGINT NOT NULL,
	expires_at DATETIME(6),
	freed_at DATETIME(6),
	CHECK ((owner IS NULL) = (expires_at IS NULL))
) ENGINE = InnoDB
;

-- The marks. advanced: the mark was once raised to a token from elsewhere, so it
-- says nothing about how many epochs were minted here, and purge leaves it alone.
CREATE TABLE IF NOT EXISTS sqlfence_fences (
	resource VARBINARY(255) NOT NULL PRIMARY KEY,
	high_water BIGINT NOT NULL,
	grant_id BIGINT NOT NULL,
	advanced BOOLEAN NOT NULL DEFAULT FALSE
) ENGINE = InnoDB
;

-- Requests to acquire whose callers have given up: see sqlfence_abandon.
CREATE TABLE IF NOT EXISTS sqlfence_abandoned (
	request BIGINT NOT NULL PRIMARY KEY,
	abandoned_at DATETIME(6) NOT NULL,
	KEY (abandoned_at)
) ENGINE = InnoDB
;

-- What guarded writes ask.
CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW sqlfence_guard AS
	SELECT f.resource, f.high_water, f.grant_id, f.advanced, CURRENT_TIMESTAMP(6) AS at
	FROM sqlfence_fences AS f
;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW sqlfence_schema AS
	SELECT m.version, m.floor, CURRENT_TIMESTAMP(6) AS at
	FROM sqlfence_meta AS m
;

-- What guarded writes ask besides whose policy ends ownership at the expiry.
CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW sqlfence_expiry AS
	SELECT l.resource, l.epoch, l.grant_id, l.expires_at, CURRENT_TIMESTAMP(6) AS at
	FROM sqlfence_leases AS l
;

-- The last two are for the procedures.
CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW sqlfence_lease AS
	SELECT l.resource, l.owner, l.epoch, l.grant_id, l.expires_at, l.freed_at, CURRENT_TIMESTAMP(6) AS at
	FROM sqlfence_leases AS l
;

CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW sqlfence_request AS
	SELECT a.request, a.abandoned_at, CURRENT_TIMESTAMP(6) AS at
	FROM sqlfence_abandoned AS a
;

-- sqlfence_check_name raises SF003 unless the name has 1 to 255 bytes. Internal.
CREATE PROCEDURE IF NOT EXISTS sqlfence_check_name(IN p_name VARBINARY(300))
SQL SECURITY DEFINER CONTAINS SQL
BEGIN
	IF p_name IS NULL OR LENGTH(p_name) NOT BETWEEN 1 AND 255 THEN
		SIGNAL SQLSTATE 'SF003' SET MESSAGE_TEXT = 'sqlfence: invalid input: a name is not of 1 to 255 bytes';
	END IF;
END
;

-- sqlfence_begin begins a transaction of the procedure's own, or, within one of the
-- caller's, sets a savepoint; o_own tells which. With p_own the latter is refused.
-- Internal.
--
-- SET TRANSACTION is the one question whether a transaction is open that both
-- families answer, and it holds for the next transaction alone.
CREATE PROCEDURE IF NOT EXISTS sqlfence_begin(IN p_own BOOLEAN, OUT o_own BOOLEAN)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE CONTINUE HANDLER FOR 1568 SET o_own = FALSE;
	IF TIMESTAMPDIFF(SECOND, CURRENT_TIMESTAMP(6), SYSDATE(6)) NOT BETWEEN -1 AND 1 THEN
		SIGNAL SQLSTATE 'SF003' SET MESSAGE_TEXT = 'sqlfence: invalid input: this session has a clock of its own (SET timestamp)';
	END IF;
	SET o_own = TRUE;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	IF o_own THEN
		START TRANSACTION READ WRITE;
	ELSEIF p_own THEN
		SIGNAL SQLSTATE 'SF003' SET MESSAGE_TEXT = 'sqlfence: invalid input: a transaction is open on this connection';
	ELSE
		SAVEPOINT sqlfence_op;
	END IF;
END
;

-- sqlfence_end ends what sqlfence_begin began; without p_keep, undoing what was
-- done since. NO CHAIN, because completion_type may say otherwise. Internal.
CREATE PROCEDURE IF NOT EXISTS sqlfence_end(IN p_own BOOLEAN, IN p_keep BOOLEAN)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	IF p_own AND p_keep THEN
		COMMIT AND NO CHAIN NO RELEASE;
	ELSEIF p_own THEN
		ROLLBACK AND NO CHAIN NO RELEASE;
	ELSEIF NOT p_own THEN
		IF NOT p_keep THEN
			ROLLBACK TO SAVEPOINT sqlfence_op;
		END IF;
		RELEASE SAVEPOINT sqlfence_op;
	END IF;
END
;

-- sqlfence_undo is sqlfence_end for handlers: a deadlock has ended the transaction,
-- and the savepoint with it. Internal.
CREATE PROCEDURE IF NOT EXISTS sqlfence_undo(IN p_own BOOLEAN)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
	CALL sqlfence_end(p_own, FALSE);
END
;

-- sqlfence_lock locks the row of fences, and then that of leases, and returns what
-- they hold; nulls where there is none. With p_create it makes those that are not
-- there: mark and epoch 0, which no token has. It waits at most for p_wait seconds
-- for each, else 1205; 0 means not at all, else SF007. Internal.
--
-- It only inserts where there was no row a moment ago: looking for a duplicate
-- locks more than the row. And it looks without a lock before it makes one: in a
-- transaction of the caller's a locking read of a row that is not there locks the gap
-- around it, and two that both hold a gap wait for each other to insert. (Only a
-- SELECT of its own reads without a lock there, no EXISTS of an IF.) Two that insert
-- the same: one waits for the other, for an exclusive lock, so that neither has to
-- raise a shared one.
CREATE PROCEDURE IF NOT EXISTS sqlfence_lock(
	IN p_resource VARBINARY(300), IN p_wait BIGINT, IN p_create BOOLEAN,
	OUT o_mark BIGINT, OUT o_mark_grant BIGINT, OUT o_advanced BOOLEAN,
	OUT o_owner VARBINARY(255), OUT o_epoch BIGINT, OUT o_grant BIGINT, OUT o_expires DATETIME(6)
)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE v_seen BOOLEAN;
	DECLARE v_timeout BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		SET SESSION innodb_lock_wait_timeout = v_timeout;
		RESIGNAL;
	END;
	IF p_wait IS NULL OR p_wait < 0 THEN
		SIGNAL SQLSTATE 'SF003' SET MESSAGE_TEXT = 'sqlfence: invalid input: the wait is null or negative';
	END IF;
	-- The variable counts seconds, from 1 on: MySQL takes no 0, and MariaDB 10.11
	-- with 0 answers SKIP LOCKED with error 1180. NOWAIT is not for MariaDB's
	-- procedures. So not to wait means to skip what is locked, and then to know that it
	-- is there; to look for it with EXISTS, which is only for what came meanwhile, may
	-- wait for its lock. An insert alone may wait all the same, behind the first acquire.
	SET SESSION innodb_lock_wait_timeout = LEAST(GREATEST(p_wait, 1), 1000000);

	SET v_seen = NULL;
	SELECT TRUE INTO v_seen FROM sqlfence_guard AS g WHERE g.resource = p_resource AND g.at = CURRENT_TIMESTAMP(6);
	IF p_create AND v_seen IS NULL THEN
		SET o_mark = NULL;
	ELSEIF p_wait = 0 THEN
		SELECT g.high_water, g.grant_id, g.advanced INTO o_mark, o_mark_grant, o_advanced
		FROM sqlfence_guard AS g WHERE g.resource = p_resource AND g.at = CURRENT_TIMESTAMP(6) FOR UPDATE SKIP LOCKED;
		IF o_mark IS NULL THEN
			IF v_seen THEN
				SIGNAL SQLSTATE 'SF007' SET MESSAGE_TEXT = 'sqlfence: the fence is not free';
			ELSEIF EXISTS (SELECT 1 FROM sqlfence_guard AS g WHERE g.resource = p_resource) THEN
				SIGNAL SQLSTATE 'SF007' SET MESSAGE_TEXT = 'sqlfence: the fence is not free';
			END IF;
		END IF;
	ELSE
		SELECT g.high_water, g.grant_id, g.advanced INTO o_mark, o_mark_grant, o_advanced
		FROM sqlfence_guard AS g WHERE g.resource = p_resource AND g.at = CURRENT_TIMESTAMP(6) FOR UPDATE;
	END IF;
	IF o_mark IS NULL AND p_create THEN
		INSERT INTO sqlfence_fences (resource, high_water, grant_id) VALUES (p_resource, 0, 0)
		ON DUPLICATE KEY UPDATE grant_id = sqlfence_fences.grant_id;
		SELECT g.high_water, g.grant_id, g.advanced INTO o_mark, o_mark_grant, o_advanced
		FROM sqlfence_guard AS g WHERE g.resource = p_resource AND g.at = CURRENT_TIMESTAMP(6) FOR UPDATE;
		IF o_mark IS NULL THEN
			SIGNAL SQLSTATE 'SF005' SET MESSAGE_TEXT = 'sqlfence: the fence is hidden by a temporary table';
		END IF;
	END IF;

	SET v_seen = NULL;
	SELECT TRUE INTO v_seen FROM sqlfence_lease AS l WHERE l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6);
	IF p_create AND v_seen IS NULL THEN
		SET o_epoch = NULL;
	ELSEIF p_wait = 0 THEN
		SELECT l.owner, l.epoch, l.grant_id, l.expires_at INTO o_owner, o_epoch, o_grant, o_expires
		FROM sqlfence_lease AS l WHERE l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6) FOR UPDATE SKIP LOCKED;
		IF o_epoch IS NULL THEN
			IF v_seen THEN
				SIGNAL SQLSTATE 'SF007' SET MESSAGE_TEXT = 'sqlfence: the lease is not free';
			ELSEIF EXISTS (SELECT 1 FROM sqlfence_lease AS l WHERE l.resource = p_resource) THEN
				SIGNAL SQLSTATE 'SF007' SET MESSAGE_TEXT = 'sqlfence: the lease is not free';
			END IF;
		END IF;
	ELSE
		SELECT l.owner, l.epoch, l.grant_id, l.expires_at INTO o_owner, o_epoch, o_grant, o_expires
		FROM sqlfence_lease AS l WHERE l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6) FOR UPDATE;
	END IF;
	IF o_epoch IS NULL AND p_create THEN
		INSERT INTO sqlfence_leases (resource, epoch, grant_id) VALUES (p_resource, 0, 0)
		ON DUPLICATE KEY UPDATE grant_id = sqlfence_leases.grant_id;
		SELECT l.owner, l.epoch, l.grant_id, l.expires_at INTO o_owner, o_epoch, o_grant, o_expires
		FROM sqlfence_lease AS l WHERE l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6) FOR UPDATE;
		IF o_epoch IS NULL THEN
			SIGNAL SQLSTATE 'SF005' SET MESSAGE_TEXT = 'sqlfence: the leases are hidden by a temporary table';
		END IF;
	END IF;
	SET SESSION innodb_lock_wait_timeout = v_timeout;
END
;

-- sqlfence_judge says what a claim to a lease is worth at the instant p_now:
-- not_owner, lapsed, epoch_mismatch or ok, in this order. Internal.
CREATE PROCEDURE IF NOT EXISTS sqlfence_judge(
	IN p_now DATETIME(6), IN p_owner VARBINARY(300), IN p_epoch BIGINT, IN p_grant BIGINT,
	IN p_lease_owner VARBINARY(255), IN p_lease_epoch BIGINT, IN p_lease_grant BIGINT, IN p_lease_expires DATETIME(6),
	IN p_mark BIGINT, IN p_mark_grant BIGINT, OUT o_outcome VARCHAR(20) CHARACTER SET ascii
)
SQL SECURITY DEFINER CONTAINS SQL
BEGIN
	IF p_lease_owner IS NULL OR p_lease_owner <> p_owner THEN
		SET o_outcome = 'not_owner';
	ELSEIF p_lease_expires <= p_now THEN
		SET o_outcome = 'lapsed';
	ELSEIF p_lease_epoch = p_epoch AND p_lease_grant = p_grant AND p_mark = p_epoch AND p_mark_grant = p_grant THEN
		SET o_outcome = 'ok';
	ELSE
		SET o_outcome = 'epoch_mismatch';
	END IF;
END
;

-- sqlfence_floor returns the floor. Within a transaction of the caller's it reads
-- with a lock, because the snapshot may be old. Internal.
CREATE PROCEDURE IF NOT EXISTS sqlfence_floor(IN p_own BOOLEAN, OUT o_floor BIGINT)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	IF p_own THEN
		SELECT s.floor INTO o_floor FROM sqlfence_schema AS s WHERE s.at = CURRENT_TIMESTAMP(6);
	ELSE
		SELECT s.floor INTO o_floor FROM sqlfence_schema AS s WHERE s.at = CURRENT_TIMESTAMP(6) LOCK IN SHARE MODE;
	END IF;
	IF o_floor IS NULL THEN
		SIGNAL SQLSTATE 'SF005' SET MESSAGE_TEXT = 'sqlfence: the row of sqlfence_meta is missing';
	END IF;
END
;

-- sqlfence_renew_one moves the expiry of a lease to p_ttl microseconds from now. It
-- waits for nobody: busy means that another transaction has the row of leases
-- locked, and that the lease was not lost when it began. The row of fences is not
-- locked, except within a transaction of the caller's, where a snapshot may be old.
-- Internal.
CREATE PROCEDURE IF NOT EXISTS sqlfence_renew_one(
	IN p_own BOOLEAN, IN p_resource VARBINARY(300), IN p_owner VARBINARY(300), IN p_epoch BIGINT, IN p_grant BIGINT, IN p_ttl BIGINT,
	OUT o_outcome VARCHAR(20) CHARACTER SET ascii, OUT o_expires DATETIME(6),
	OUT o_holder VARBINARY(255), OUT o_epoch BIGINT, OUT o_mark BIGINT
)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE v_grant, v_mark_grant BIGINT;
	DECLARE v_expires, v_now DATETIME(6);
	DECLARE v_locked BOOLEAN DEFAULT TRUE;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;

	SELECT l.owner, l.epoch, l.grant_id, l.expires_at INTO o_holder, o_epoch, v_grant, v_expires
	FROM sqlfence_lease AS l WHERE l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6) FOR UPDATE SKIP LOCKED;
	IF o_epoch IS NULL THEN
		SET v_locked = FALSE;
		-- One statement, so that lease and mark are of one moment: whoever has the lock
		-- may be done with it any time.
		SELECT l.owner, l.epoch, l.grant_id, l.expires_at, g.high_water, g.grant_id
		INTO o_holder, o_epoch, v_grant, v_expires, o_mark, v_mark_grant
		FROM sqlfence_lease AS l LEFT JOIN sqlfence_guard AS g ON g.resource = l.resource AND g.at = CURRENT_TIMESTAMP(6)
		WHERE l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6);
	END IF;
	IF NOT p_own THEN
		SELECT g.high_water, g.grant_id INTO o_mark, v_mark_grant
		FROM sqlfence_guard AS g WHERE g.resource = p_resource AND g.at = CURRENT_TIMESTAMP(6) LOCK IN SHARE MODE;
	ELSEIF v_locked THEN
		SELECT g.high_water, g.grant_id INTO o_mark, v_mark_grant
		FROM sqlfence_guard AS g WHERE g.resource = p_resource AND g.at = CURRENT_TIMESTAMP(6);
	END IF;
	SET v_now = UTC_TIMESTAMP(6);
	CALL sqlfence_judge(v_now, p_owner, p_epoch, p_grant, o_holder, o_epoch, v_grant, v_expires, o_mark, v_mark_grant, o_outcome);
	IF NOT v_locked AND (o_outcome = 'ok' OR NOT p_own) AND o_epoch IS NOT NULL THEN
		SET o_outcome = 'busy';
	ELSEIF o_outcome = 'ok' THEN
		SET o_expires = TIMESTAMPADD(MICROSECOND, p_ttl, v_now);
		UPDATE sqlfence_lease AS l SET l.expires_at = o_expires
		WHERE l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6);
	END IF;
END
;

-- sqlfence_acquire makes one attempt to own a resource for p_ttl microseconds from
-- the grant. It does not wait for a live holder; it waits at most for p_wait seconds
-- for open guarded transactions of the former owner (0: not at all).
--   p_reentry  what happens where the owner itself is the holder: 0 a new epoch,
--              1 held, 2 the token is kept and the expiry moves
--   p_grant    the grant to give: a random number other than 0, never used before
--   p_least    a new grant's epoch is not below it, and a kept token neither
--   p_own      whether it must be a transaction of its own
--   outcome    ok, or held: holder and remaining tell by whom and for how long;
--              nothing was written
-- Times in the answer are microseconds, expires_at since 1970.
CREATE PROCEDURE IF NOT EXISTS sqlfence_acquire(
	IN p_resource VARBINARY(300), IN p_owner VARBINARY(300), IN p_ttl BIGINT, IN p_wait BIGINT,
	IN p_reentry INT, IN p_grant BIGINT, IN p_least BIGINT, IN p_own BOOLEAN
)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE v_own, v_mine, v_keep, v_advanced BOOLEAN;
	DECLARE v_mark, v_mark_grant, v_epoch, v_grant, v_floor, v_top, v_abandoned BIGINT;
	DECLARE v_holder VARBINARY(255);
	DECLARE v_expires, v_now, v_new_expires DATETIME(6);
	DECLARE v_outcome VARCHAR(20) CHARACTER SET ascii;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		CALL sqlfence_undo(v_own);
		RESIGNAL;
	END;
	CALL sqlfence_check_name(p_resource);
	CALL sqlfence_check_name(p_owner);
	IF p_ttl IS NULL OR p_ttl NOT BETWEEN 1000 AND 315576000000000 OR p_reentry IS NULL OR p_reentry NOT BETWEEN 0 AND 2
			OR p_grant IS NULL OR p_grant = 0 OR p_least IS NULL OR p_least < 0 THEN
		SIGNAL SQLSTATE 'SF003' SET MESSAGE_TEXT = 'sqlfence: invalid input: TTL, reentry, grant or least epoch';
	END IF;
	CALL sqlfence_begin(p_own, v_own);

	-- First without a lock, so that those who poll a held resource disturb nobody.
	SELECT l.owner, l.epoch, l.grant_id, l.expires_at INTO v_holder, v_epoch, v_grant, v_expires
	FROM sqlfence_lease AS l WHERE l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6);
	SET v_now = UTC_TIMESTAMP(6);
	IF v_holder IS NOT NULL AND v_expires > v_now THEN
		IF v_holder <> p_owner OR p_reentry = 1 THEN
			SET v_outcome = 'held';
		ELSEIF p_reentry = 2 AND v_epoch >= p_least THEN
			-- A renewal: it does not have to wait for the owner's own guarded writes.
			CALL sqlfence_renew_one(v_own, p_resource, p_owner, v_epoch, v_grant, p_ttl,
				v_outcome, v_new_expires, v_holder, v_top, v_mark);
			IF v_outcome <> 'ok' THEN
				SET v_outcome = NULL;
			END IF;
		END IF;
	END IF;

	IF v_outcome IS NULL THEN
		CALL sqlfence_lock(p_resource, p_wait, TRUE, v_mark, v_mark_grant, v_advanced, v_holder, v_epoch, v_grant, v_expires);
		-- All reads from here on are later statements than the locks.
		CALL sqlfence_floor(v_own, v_floor);
		SELECT r.request INTO v_abandoned FROM sqlfence_request AS r WHERE r.request = p_grant AND r.at = CURRENT_TIMESTAMP(6);
		IF v_abandoned IS NOT NULL THEN
			SIGNAL SQLSTATE 'SF006' SET MESSAGE_TEXT = 'sqlfence: the request to acquire was abandoned';
		END IF;
		SET v_now = UTC_TIMESTAMP(6);
		SET v_mine = v_holder IS NOT NULL AND v_expires > v_now AND v_holder = p_owner AND p_reentry <> 1;
		IF v_holder IS NOT NULL AND v_expires > v_now AND NOT v_mine THEN
			SET v_outcome = 'held';
		ELSE
			SET v_new_expires = TIMESTAMPADD(MICROSECOND, p_ttl, v_now);
			SET v_keep = v_mine AND p_reentry = 2 AND v_epoch >= p_least AND v_mark = v_epoch AND v_mark_grant = v_grant;
			IF NOT v_keep THEN
				SET v_top = GREATEST(v_epoch, v_mark, v_floor, p_least - 1);
				IF v_top = 9223372036854775807 THEN
					SIGNAL SQLSTATE 'SF004' SET MESSAGE_TEXT = 'sqlfence: epochs exhausted';
				END IF;
				SET v_epoch = v_top + 1;
				SET v_grant = p_grant;
				UPDATE sqlfence_guard AS g SET g.high_water = v_epoch, g.grant_id = v_grant
				WHERE g.resource = p_resource AND g.at = CURRENT_TIMESTAMP(6);
			END IF;
			UPDATE sqlfence_lease AS l SET l.owner = p_owner, l.epoch = v_epoch, l.grant_id = v_grant,
				l.expires_at = v_new_expires, l.freed_at = NULL
			WHERE l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6);
			SET v_outcome = 'ok';
		END IF;
	END IF;
	CALL sqlfence_end(v_own, v_outcome = 'ok');
	IF v_outcome = 'ok' THEN
		SELECT v_outcome AS outcome, v_epoch AS epoch, v_grant AS grant_id,
			TIMESTAMPDIFF(MICROSECOND, '1970-01-01', v_new_expires) AS expires_at, NULL AS holder, p_ttl AS remaining;
	ELSE
		SELECT v_outcome AS outcome, NULL AS epoch, NULL AS grant_id, NULL AS expires_at, v_holder AS holder,
			TIMESTAMPDIFF(MICROSECOND, v_now, v_expires) AS remaining;
	END IF;
END
;

-- sqlfence_renew renews many leases, each as sqlfence_renew_one does. p_claims is a
-- JSON array of [resource, owner, epoch, grant, ttl], the names in hexadecimal, in
-- the order of the resources' bytes, so that two batches cannot wait for each other
-- in a circle. The answer is one text, with a part for each claim, in their order:
--   outcome expires_at holder epoch mark;
-- with - for null, the holder in hexadecimal and the expiry in microseconds since
-- 1970. outcome: ok, not_owner, lapsed, epoch_mismatch, or busy.
CREATE PROCEDURE IF NOT EXISTS sqlfence_renew(IN p_claims LONGTEXT CHARACTER SET ascii, IN p_own BOOLEAN)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE v_own BOOLEAN;
	DECLARE v_left INT DEFAULT JSON_LENGTH(p_claims);
	DECLARE v_resource, v_owner, v_holder VARBINARY(300);
	DECLARE v_epoch, v_grant, v_ttl, v_found, v_mark BIGINT;
	DECLARE v_expires DATETIME(6);
	DECLARE v_outcome VARCHAR(20) CHARACTER SET ascii;
	DECLARE v_answer LONGTEXT CHARACTER SET ascii DEFAULT '';
	DECLARE c_claims CURSOR FOR
		SELECT UNHEX(j.resource), UNHEX(j.owner), j.epoch, j.grant_id, j.ttl
		FROM JSON_TABLE(p_claims, '$[*]' COLUMNS (
			resource VARCHAR(600) CHARACTER SET ascii PATH '$[0]', owner VARCHAR(600) CHARACTER SET ascii PATH '$[1]',
			epoch BIGINT PATH '$[2]', grant_id BIGINT PATH '$[3]', ttl BIGINT PATH '$[4]')) AS j;
	DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_left = 0; -- no array: the answer is too short
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		CALL sqlfence_undo(v_own);
		RESIGNAL;
	END;
	CALL sqlfence_begin(p_own, v_own);
	OPEN c_claims;
	WHILE v_left > 0 DO
		FETCH c_claims INTO v_resource, v_owner, v_epoch, v_grant, v_ttl;
		CALL sqlfence_check_name(v_resource);
		CALL sqlfence_check_name(v_owner);
		IF v_epoch IS NULL OR v_epoch < 1 OR v_grant IS NULL OR v_ttl IS NULL OR v_ttl NOT BETWEEN 1000 AND 315576000000000 THEN
			SIGNAL SQLSTATE 'SF003' SET MESSAGE_TEXT = 'sqlfence: invalid input: epoch, grant or TTL';
		END IF;
		CALL sqlfence_renew_one(v_own, v_resource, v_owner, v_epoch, v_grant, v_ttl, v_outcome, v_expires, v_holder, v_found, v_mark);
		SET v_answer = CONCAT(v_answer, v_outcome, ' ',
			IFNULL(CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', v_expires) AS CHAR CHARACTER SET ascii), '-'), ' ',
			IFNULL(HEX(v_holder), '-'), ' ', IFNULL(v_found, '-'), ' ', IFNULL(v_mark, '-'), ';');
		SET v_left = v_left - 1;
	END WHILE;
	CLOSE c_claims;
	CALL sqlfence_end(v_own, TRUE);
	SELECT v_answer AS answer;
END
;

-- sqlfence_release_one is sqlfence_release with its answer in variables. Internal.
CREATE PROCEDURE IF NOT EXISTS sqlfence_release_one(
	IN p_resource VARBINARY(300), IN p_owner VARBINARY(300), IN p_epoch BIGINT, IN p_grant BIGINT, IN p_wait BIGINT,
	IN p_next BIGINT, IN p_own BOOLEAN,
	OUT o_outcome VARCHAR(20) CHARACTER SET ascii, OUT o_holder VARBINARY(255), OUT o_epoch BIGINT, OUT o_mark BIGINT
)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE v_own, v_advanced BOOLEAN;
	DECLARE v_grant, v_mark_grant BIGINT;
	DECLARE v_expires, v_now DATETIME(6);
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		CALL sqlfence_undo(v_own);
		RESIGNAL;
	END;
	CALL sqlfence_check_name(p_resource);
	CALL sqlfence_check_name(p_owner);
	IF p_epoch IS NULL OR p_epoch < 1 OR p_grant IS NULL OR p_next IS NULL OR p_next = 0 THEN
		SIGNAL SQLSTATE 'SF003' SET MESSAGE_TEXT = 'sqlfence: invalid input: epoch or grant';
	END IF;
	CALL sqlfence_begin(p_own, v_own);
	SET o_outcome = 'ok';
	IF v_own THEN
		-- One statement, so that lease and mark are of one moment.
		SELECT l.owner, l.epoch, l.grant_id, l.expires_at, g.high_water, g.grant_id
		INTO o_holder, o_epoch, v_grant, v_expires, o_mark, v_mark_grant
		FROM sqlfence_lease AS l LEFT JOIN sqlfence_guard AS g ON g.resource = l.resource AND g.at = CURRENT_TIMESTAMP(6)
		WHERE l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6);
		SET v_now = UTC_TIMESTAMP(6);
		CALL sqlfence_judge(v_now, p_owner, p_epoch, p_grant, o_holder, o_epoch, v_grant, v_expires, o_mark, v_mark_grant, o_outcome);
	END IF;
	IF o_outcome = 'ok' THEN
		CALL sqlfence_lock(p_resource, p_wait, FALSE, o_mark, v_mark_grant, v_advanced, o_holder, o_epoch, v_grant, v_expires);
		SET v_now = UTC_TIMESTAMP(6);
		CALL sqlfence_judge(v_now, p_owner, p_epoch, p_grant, o_holder, o_epoch, v_grant, v_expires, o_mark, v_mark_grant, o_outcome);
	END IF;
	IF o_outcome = 'ok' THEN
		IF o_epoch = 9223372036854775807 THEN
			SIGNAL SQLSTATE 'SF004' SET MESSAGE_TEXT = 'sqlfence: epochs exhausted';
		END IF;
		SET o_epoch = o_epoch + 1, o_mark = o_epoch, o_holder = NULL;
		UPDATE sqlfence_guard AS g SET g.high_water = o_epoch, g.grant_id = p_next
		WHERE g.resource = p_resource AND g.at = CURRENT_TIMESTAMP(6);
		UPDATE sqlfence_lease AS l SET l.owner = NULL, l.expires_at = NULL, l.freed_at = v_now,
			l.epoch = o_epoch, l.grant_id = p_next
		WHERE l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6);
	END IF;
	CALL sqlfence_end(v_own, o_outcome = 'ok');
END
;

-- sqlfence_release makes a resource FREE. Epoch and mark grow by one and the mark
-- gets the grant p_next, which nobody has, so that no token passes any more. It waits
-- at most for p_wait seconds for the owner's own open guarded transactions. outcome:
-- ok; not_owner, lapsed, epoch_mismatch, with nothing written.
CREATE PROCEDURE IF NOT EXISTS sqlfence_release(
	IN p_resource VARBINARY(300), IN p_owner VARBINARY(300), IN p_epoch BIGINT, IN p_grant BIGINT, IN p_wait BIGINT,
	IN p_next BIGINT, IN p_own BOOLEAN
)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE v_outcome VARCHAR(20) CHARACTER SET ascii;
	DECLARE v_holder VARBINARY(255);
	DECLARE v_epoch, v_mark BIGINT;
	CALL sqlfence_release_one(p_resource, p_owner, p_epoch, p_grant, p_wait, p_next, p_own, v_outcome, v_holder, v_epoch, v_mark);
	SELECT v_outcome AS outcome, v_holder AS holder, v_epoch AS epoch, v_mark AS high_water;
END
;

-- sqlfence_abandon makes sure that a request to acquire (the grant it asked for)
-- does not take effect any more: a lease that it was granted is released, and if it
-- is still on its way it will be refused. It waits at most for p_wait seconds.
-- outcome: released, or ok where there was no such lease.
--
-- The request reads what is written here after it has locked the row of leases;
-- this is committed before that row is asked for: one of the two sees the other.
CREATE PROCEDURE IF NOT EXISTS sqlfence_abandon(IN p_resource VARBINARY(300), IN p_request BIGINT, IN p_next BIGINT, IN p_wait BIGINT)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE v_own BOOLEAN;
	DECLARE v_timeout BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
	DECLARE v_seen, v_epoch, v_grant, v_mark BIGINT;
	DECLARE v_owner, v_holder VARBINARY(255);
	DECLARE v_outcome VARCHAR(20) CHARACTER SET ascii DEFAULT 'ok';
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		SET SESSION innodb_lock_wait_timeout = v_timeout;
		CALL sqlfence_undo(v_own);
		RESIGNAL;
	END;
	CALL sqlfence_check_name(p_resource);
	IF p_request IS NULL OR p_request = 0 OR p_next IS NULL OR p_next = 0 OR p_wait IS NULL OR p_wait < 0 THEN
		SIGNAL SQLSTATE 'SF003' SET MESSAGE_TEXT = 'sqlfence: invalid input: request, grant or wait';
	END IF;
	SET SESSION innodb_lock_wait_timeout = LEAST(GREATEST(p_wait, 1), 1000000);
	CALL sqlfence_begin(TRUE, v_own);
	INSERT INTO sqlfence_abandoned (request, abandoned_at) VALUES (p_request, UTC_TIMESTAMP(6))
	ON DUPLICATE KEY UPDATE abandoned_at = VALUES(abandoned_at);
	SELECT r.request INTO v_seen FROM sqlfence_request AS r WHERE r.request = p_request AND r.at = CURRENT_TIMESTAMP(6);
	IF v_seen IS NULL THEN
		SIGNAL SQLSTATE 'SF005' SET MESSAGE_TEXT = 'sqlfence: the requests are hidden by a temporary table';
	END IF;
	-- No request is still on its way after a day.
	DELETE FROM sqlfence_request
	WHERE abandoned_at < TIMESTAMPADD(DAY, -1, UTC_TIMESTAMP(6)) AND at = CURRENT_TIMESTAMP(6)
	ORDER BY abandoned_at LIMIT 10;
	CALL sqlfence_end(v_own, TRUE);
	CALL sqlfence_begin(TRUE, v_own);
	SELECT l.owner, l.epoch, l.grant_id INTO v_owner, v_epoch, v_grant
	FROM sqlfence_lease AS l WHERE l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6) FOR UPDATE;
	CALL sqlfence_end(v_own, TRUE);
	SET v_own = NULL;
	SET SESSION innodb_lock_wait_timeout = v_timeout;
	IF v_owner IS NOT NULL AND v_grant = p_request THEN
		CALL sqlfence_release_one(p_resource, v_owner, v_epoch, v_grant, p_wait, p_next, TRUE, v_outcome, v_holder, v_epoch, v_mark);
		SET v_outcome = IF(v_outcome = 'ok', 'released', 'ok');
	END IF;
	SELECT v_outcome AS outcome;
END
;

-- sqlfence_advance raises the mark to a token issued elsewhere, and answers with the
-- mark afterwards: the token's own, or, with nothing written, the one that fences it.
-- It waits at most for p_wait seconds for open guarded transactions. A token with a
-- grant, at or below the floor of purge, for a resource without a mark counts as
-- fenced by the floor: it may have been minted here.
CREATE PROCEDURE IF NOT EXISTS sqlfence_advance(
	IN p_resource VARBINARY(300), IN p_epoch BIGINT, IN p_grant BIGINT, IN p_wait BIGINT, IN p_own BOOLEAN
)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE v_own, v_advanced BOOLEAN;
	DECLARE v_mark, v_mark_grant, v_epoch, v_grant, v_floor BIGINT;
	DECLARE v_owner VARBINARY(255);
	DECLARE v_expires DATETIME(6);
	DECLARE v_raised BOOLEAN DEFAULT FALSE;
	DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		CALL sqlfence_undo(v_own);
		RESIGNAL;
	END;
	CALL sqlfence_check_name(p_resource);
	IF p_epoch IS NULL OR p_epoch < 1 OR p_grant IS NULL OR p_wait IS NULL OR p_wait < 0 THEN
		SIGNAL SQLSTATE 'SF003' SET MESSAGE_TEXT = 'sqlfence: invalid input: epoch, grant or wait';
	END IF;
	CALL sqlfence_begin(p_own, v_own);
	SELECT g.high_water, g.grant_id INTO v_mark, v_mark_grant
	FROM sqlfence_guard AS g WHERE g.resource = p_resource AND g.at = CURRENT_TIMESTAMP(6);
	-- A mark never goes back, so that even an old snapshot is right about a lower token.
	IF v_mark IS NULL OR v_mark < p_epoch OR (NOT v_own AND v_mark = p_epoch) THEN
		CALL sqlfence_lock(p_resource, p_wait, TRUE, v_mark, v_mark_grant, v_advanced, v_owner, v_epoch, v_grant, v_expires);
		CALL sqlfence_floor(v_own, v_floor);
		IF v_mark = 0 AND p_grant <> 0 AND p_epoch <= v_floor THEN
			SET v_mark = v_floor, v_mark_grant = 0;
		ELSEIF v_mark < p_epoch THEN
			UPDATE sqlfence_guard AS g SET g.high_water = p_epoch, g.grant_id = p_grant, g.advanced = TRUE
			WHERE g.resource = p_resource AND g.at = CURRENT_TIMESTAMP(6);
			IF v_epoch = 0 THEN
				-- The lease was made by the lock, and nobody has ever held it.
				DELETE FROM sqlfence_lease WHERE resource = p_resource AND at = CURRENT_TIMESTAMP(6);
			END IF;
			SET v_mark = p_epoch, v_mark_grant = p_grant, v_raised = TRUE;
		END IF;
	END IF;
	CALL sqlfence_end(v_own, v_raised);
	SELECT v_mark AS high_water, v_mark_grant AS grant_id;
END
;

-- sqlfence_inspect returns the state of a resource in one row, waiting for no lock:
-- status is free, held or lapsed; a resource never seen is free, with epoch and mark
-- 0. What it finds may be old when it arrives. Times are microseconds.
CREATE PROCEDURE IF NOT EXISTS sqlfence_inspect(IN p_resource VARBINARY(300))
SQL SECURITY DEFINER READS SQL DATA
BEGIN
	CALL sqlfence_check_name(p_resource);
	SELECT p_resource AS resource,
		CASE WHEN l.owner IS NULL THEN 'free' WHEN l.expires_at > UTC_TIMESTAMP(6) THEN 'held' ELSE 'lapsed' END AS status,
		l.owner, IFNULL(l.epoch, 0) AS epoch, IFNULL(g.high_water, 0) AS high_water,
		TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.expires_at) AS expires_at,
		GREATEST(0, IFNULL(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), l.expires_at), 0)) AS remaining
	FROM (SELECT p_resource AS resource) AS r
	LEFT JOIN sqlfence_lease AS l ON l.resource = p_resource AND l.at = CURRENT_TIMESTAMP(6)
	LEFT JOIN sqlfence_guard AS g ON g.resource = p_resource AND g.at = CURRENT_TIMESTAMP(6);
END
;

-- sqlfence_inspect_prefix returns the states of up to p_rows resources whose names
-- begin with p_prefix and come after p_after, in the order of the names' bytes: to
-- page on, give the last name of the page before.
CREATE PROCEDURE IF NOT EXISTS sqlfence_inspect_prefix(IN p_prefix VARBINARY(300), IN p_after VARBINARY(300), IN p_rows BIGINT)
SQL SECURITY DEFINER READS SQL DATA
BEGIN
	DECLARE v_rows BIGINT DEFAULT GREATEST(p_rows, 0);
	SELECT n.resource,
		CASE WHEN l.owner IS NULL THEN 'free' WHEN l.expires_at > UTC_TIMESTAMP(6) THEN 'held' ELSE 'lapsed' END AS status,
		l.owner, IFNULL(l.epoch, 0) AS epoch, IFNULL(g.high_water, 0) AS high_water,
		TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.expires_at) AS expires_at,
		GREATEST(0, IFNULL(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), l.expires_at), 0)) AS remaining
	FROM (
		(SELECT a.resource FROM sqlfence_lease AS a
		WHERE a.resource >= p_prefix AND a.resource > p_after AND LEFT(a.resource, LENGTH(p_prefix)) = p_prefix
			AND a.at = CURRENT_TIMESTAMP(6) ORDER BY a.resource LIMIT v_rows)
		UNION
		(SELECT b.resource FROM sqlfence_guard AS b
		WHERE b.resource >= p_prefix AND b.resource > p_after AND LEFT(b.resource, LENGTH(p_prefix)) = p_prefix
			AND b.at = CURRENT_TIMESTAMP(6) ORDER BY b.resource LIMIT v_rows)
	) AS n
	LEFT JOIN sqlfence_lease AS l ON l.resource = n.resource AND l.at = CURRENT_TIMESTAMP(6)
	LEFT JOIN sqlfence_guard AS g ON g.resource = n.resource AND g.at = CURRENT_TIMESTAMP(6)
	ORDER BY n.resource LIMIT v_rows;
END
;

-- sqlfence_blockers returns the transactions that the waiting connection p_waiting
-- waits for, and nobody who only queues for the same lock. Age is in microseconds. A
-- prepared XA transaction has no connection. The account of the schema needs PROCESS,
-- and on MySQL SELECT on performance_schema (data_locks, data_lock_waits): SF011.
--
-- On MariaDB all transactions that have not written yet have the number 0: such a
-- one is named only where no other can be meant, because whoever is named may be
-- ended.
CREATE PROCEDURE IF NOT EXISTS sqlfence_blockers(IN p_waiting BIGINT)
SQL SECURITY DEFINER READS SQL DATA
BEGIN
	DECLARE v_host VARCHAR(300) DEFAULT SUBSTRING_INDEX(CURRENT_USER(), '@', -1);
	DECLARE v_account VARCHAR(600) DEFAULT CONCAT(
		'`', REPLACE(LEFT(CURRENT_USER(), CHAR_LENGTH(CURRENT_USER()) - CHAR_LENGTH(v_host) - 1), '`', '``'), '`@`', v_host, '`');
	DECLARE v_missing VARCHAR(700);
	-- A message has room for 128 characters.
	DECLARE EXIT HANDLER FOR 1142
	BEGIN
		SET v_missing = LEFT(CONCAT('sqlfence: GRANT SELECT ON performance_schema.* TO ', v_account), 128);
		SIGNAL SQLSTATE 'SF011' SET MESSAGE_TEXT = v_missing;
	END;
	DECLARE EXIT HANDLER FOR 1227
	BEGIN
		SET v_missing = LEFT(CONCAT('sqlfence: GRANT PROCESS ON *.* TO ', v_account), 128);
		SIGNAL SQLSTATE 'SF011' SET MESSAGE_TEXT = v_missing;
	END;
	-- Each server reads its own half alone: they have no table of waits in common, and
	-- MySQL resolves the names of information_schema when it creates a procedure.
	/*M!100600
	SELECT b.trx_mysql_thread_id AS id, CONCAT(p.user, '@', p.host) AS account,
		TIMESTAMPDIFF(MICROSECOND, b.trx_started, CURRENT_TIMESTAMP(6)) AS age,
		CASE b.trx_mysql_thread_id WHEN 0 THEN CONCAT('XA transaction ', b.trx_id) END AS prepared
	FROM information_schema.innodb_lock_waits AS w
	JOIN information_schema.innodb_trx AS r ON r.trx_id = w.requesting_trx_id
	JOIN information_schema.innodb_trx AS b ON b.trx_id = w.blocking_trx_id
	LEFT JOIN information_schema.processlist AS p ON p.id = b.trx_mysql_thread_id
	WHERE r.trx_mysql_thread_id = p_waiting AND r.trx_id <> 0
		AND (b.trx_id <> 0 OR b.trx_rows_locked > 0 AND 1 = (
			SELECT COUNT(*) FROM information_schema.innodb_trx AS o WHERE o.trx_id = 0 AND o.trx_rows_locked > 0))
		AND (b.trx_requested_lock_id IS NULL OR b.trx_requested_lock_id <> w.blocking_lock_id)
	ORDER BY b.trx_started;
	*/
	/*!80000
	SELECT b.trx_mysql_thread_id AS id, CONCAT(p.user, '@', p.host) AS account,
		TIMESTAMPDIFF(MICROSECOND, b.trx_started, CURRENT_TIMESTAMP(6)) AS age,
		CASE b.trx_mysql_thread_id WHEN 0 THEN CONCAT('XA transaction ', b.trx_id) END AS prepared
	FROM performance_schema.data_lock_waits AS w
	JOIN information_schema.innodb_trx AS r ON r.trx_id = w.requesting_engine_transaction_id
	JOIN information_schema.innodb_trx AS b ON b.trx_id = w.blocking_engine_transaction_id
	JOIN performance_schema.data_locks AS k ON k.engine_lock_id = w.blocking_engine_lock_id AND k.lock_status = 'GRANTED'
	LEFT JOIN information_schema.processlist AS p ON p.id = b.trx_mysql_thread_id
	WHERE r.trx_mysql_thread_id = p_waiting
	ORDER BY b.trx_started;
	*/
END
;

-- sqlfence_cancel ends what a connection is doing, if that is an operation of this
-- schema; it does nothing where the connection is gone or does something else.
--
-- Within a procedure a session has the rights of its definer, and to the server it is
-- the definer's: the account that called it may not see it then, nor kill it. So does
-- this one run, and may.
CREATE PROCEDURE IF NOT EXISTS sqlfence_cancel(IN p_id BIGINT)
SQL SECURITY DEFINER READS SQL DATA
BEGIN
	DECLARE CONTINUE HANDLER FOR 1094, 1095 BEGIN END;
	IF EXISTS (SELECT 1 FROM information_schema.processlist AS p WHERE p.id = p_id AND p.info LIKE '%sqlfence%') THEN
		KILL QUERY p_id;
	END IF;
END
;

-- sqlfence_purge drops up to p_rows resources that have been FREE or LAPSED for
-- longer than p_idle microseconds, and raises the floor above every epoch they
-- minted. A resource that is in use at the moment is left alone, and so is one whose
-- mark was ever advanced: its mark stands for tokens that no floor knows. So is one
-- whose epochs have passed 2^62: a floor there would take all others to the end of theirs.
CREATE PROCEDURE IF NOT EXISTS sqlfence_purge(IN p_idle BIGINT, IN p_rows BIGINT, IN p_own BOOLEAN)
SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
	DECLARE v_own, v_done BOOLEAN DEFAULT FALSE;
	DECLARE v_rows BIGINT DEFAULT GREATEST(p_rows, 0);
	DECLARE v_cutoff DATETIME(6) DEFAULT TIMESTAMPADD(MICROSECOND, -p_idle, UTC_TIMESTAMP(6));
	DECLARE v_resource VARBINARY(255);
	DECLARE v_floor, v_old, v_mark, v_epoch BIGINT;
	DECLARE v_dropped BIGINT DEFAULT 0;
	DECLARE c_idle CURSOR FOR
		SELECT l.resource FROM sqlfence_lease AS l JOIN sqlfence_guard AS g ON g.resource = l.resource
		WHERE NOT g.advanced AND COALESCE(l.expires_at, l.freed_at) < v_cutoff AND GREATEST(l.epoch, g.high_water) <= 4611686018427387904
			AND l.at = CURRENT_TIMESTAMP(6) AND g.at = CURRENT_TIMESTAMP(6)
		LIMIT v_rows;
	DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_done = TRUE;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		CALL sqlfence_undo(v_own);
		RESIGNAL;
	END;
	IF p_idle IS NULL OR p_idle < 0 OR p_rows IS NULL OR p_rows < 0 THEN
		SIGNAL SQLSTATE 'SF003' SET MESSAGE_TEXT = 'sqlfence: invalid input: purge';
	END IF;
	SET v_own = NULL;
	CALL sqlfence_begin(p_own, v_own);
	-- The row of meta before any fence, and fences without waiting: no circle of
	-- waiters can come about.
	SELECT s.floor INTO v_old FROM sqlfence_schema AS s WHERE s.at = CURRENT_TIMESTAMP(6) FOR UPDATE;
	IF v_old IS NULL THEN
		SIGNAL SQLSTATE 'SF005' SET MESSAGE_TEXT = 'sqlfence: the row of sqlfence_meta is missing';
	END IF;
	SET v_floor = v_old;
	OPEN c_idle;
	each_idle: LOOP
		SET v_done = FALSE;
		FETCH c_idle INTO v_resource;
		IF v_done THEN
			LEAVE each_idle;
		END IF;
		SET v_mark = NULL, v_epoch = NULL;
		SELECT g.high_water INTO v_mark FROM sqlfence_guard AS g
		WHERE g.resource = v_resource AND NOT g.advanced AND g.at = CURRENT_TIMESTAMP(6) FOR UPDATE SKIP LOCKED;
		IF v_mark IS NOT NULL THEN
			SELECT l.epoch INTO v_epoch FROM sqlfence_lease AS l
			WHERE l.resource = v_resource AND COALESCE(l.expires_at, l.freed_at) < v_cutoff AND l.at = CURRENT_TIMESTAMP(6)
			FOR UPDATE SKIP LOCKED;
		END IF;
		IF v_epoch IS NOT NULL AND GREATEST(v_mark, v_epoch) <= 4611686018427387904 THEN
			DELETE FROM sqlfence_lease WHERE resource = v_resource AND at = CURRENT_TIMESTAMP(6);
			DELETE FROM sqlfence_guard WHERE resource = v_resource AND at = CURRENT_TIMESTAMP(6);
			SET v_floor = GREATEST(v_floor, v_mark, v_epoch), v_dropped = v_dropped + 1;
		END IF;
	END LOOP;
	CLOSE c_idle;
	IF v_floor > v_old THEN
		UPDATE sqlfence_schema AS s SET s.floor = v_floor WHERE s.at = CURRENT_TIMESTAMP(6);
	END IF;
	DELETE FROM sqlfence_request
	WHERE abandoned_at < TIMESTAMPADD(DAY, -1, UTC_TIMESTAMP(6)) AND at = CURRENT_TIMESTAMP(6)
	ORDER BY abandoned_at LIMIT 10000;
	CALL sqlfence_end(v_own, TRUE);
	SELECT v_dropped AS dropped;
END
;

-- The version comes last: where it is found, all of the above is there.
INSERT IGNORE INTO sqlfence_meta (only_row, version, floor) VALUES (1, 1, 0)
;
