package twin_test

// mariaTwinStatements are those that MySQL does not have.
func mariaTwinStatements() []twinStatement {
	var all []twinStatement
	add := func(texts ...string) {
		for _, t := range texts {
			all = append(all, twinStatement{text: t})
		}
	}
	with := func(text string, args ...any) { all = append(all, twinStatement{text: text, args: args}) }

	// RETURNING
	add(`INSERT INTO d (v) VALUES ('new') RETURNING id, v, i`, `INSERT INTO auto (v) VALUES ('a'), ('b') RETURNING id, v`, `INSERT INTO auto SET v = 'a', k = 'k10' ON DUPLICATE KEY UPDATE v = 'dup' RETURNING id, v`, `REPLACE auto (v, k) VALUES ('a', 'k10'), ('b', 'n') RETURNING *`,
		`INSERT INTO e SELECT id, v FROM d RETURNING a + 1 AS next, b`, `REPLACE INTO d (id, v) VALUES (1, 'r') RETURNING *`, `REPLACE INTO d (id, v) SELECT a, b FROM e RETURNING id, u`,
		`DELETE FROM d RETURNING *`, `DELETE FROM d WHERE id = 1 OR id = 2 RETURNING id, UPPER(v)`, `DELETE FROM d WHERE id > 1 ORDER BY id DESC LIMIT 1 RETURNING id, j`, `DELETE FROM e WHERE a = 1 RETURNING (SELECT MAX(id) FROM d)`, `INSERT INTO d (v) VALUES ('x') RETURNING id AS sqlfence_g`)
	with(`INSERT INTO d (v, n) VALUES (?, ?) RETURNING id, v, n, ? AS p`, "s", 1.5, "back")
	with(`DELETE FROM d WHERE id = ? OR v = ? RETURNING id, ?`, 1, "b", "back")
	with(`INSERT INTO e SELECT id, ? FROM d WHERE id < ? RETURNING a, b`, "x", 3)
	none := func(text string) { all = append(all, twinStatement{text: text, none: true}) }
	none(`DELETE FROM d WHERE id = 999 RETURNING id`)

	// periods and system versions
	add(`UPDATE period FOR PORTION OF p FROM '2020-03-01' TO '2020-09-01' SET v = 'mid'`, `UPDATE period FOR PORTION OF p FROM '2020-03-01' TO '2020-09-01' SET v = 'mid' WHERE a = 1 OR a = 2`, `DELETE FROM period FOR PORTION OF p FROM '2020-03-01' TO '2020-09-01'`, `DELETE FROM period FOR PORTION OF p FROM '2020-03-01' TO '2020-09-01' WHERE a = 1 OR 0`)
	for _, text := range []string{`UPDATE versioned SET v = 'w' WHERE a = 1 OR a = 2`, `DELETE FROM versioned WHERE a = 1`, `UPDATE versioned SET a = 5`} {
		all = append(all, twinStatement{text: text, before: `INSERT INTO versioned VALUES (1, 'x'), (2, 'y')`})
	}
	add(`INSERT INTO versioned VALUES (3, 'z')`, `INSERT INTO versioned (a) SELECT a FROM e`)

	// what is executed behind settings
	add(`SET STATEMENT max_statement_time = 100, lock_wait_timeout = 5 FOR UPDATE d SET v = 'x' WHERE id = 1 OR id = 2`, `SET STATEMENT sql_mode = '' FOR INSERT INTO d (v) VALUES ('much too long for the column')`, `SET STATEMENT max_statement_time = 100 FOR DELETE FROM d`)

	// other forms
	add(`INSERT INTO e SELECT seq, 'seq' FROM seq_1_to_3`, `INSERT INTO d (v, i) VALUES (\N, 1)`, `UPDATE d SET v = \N WHERE id = 1`, `INSERT INTO e SELECT id, v FROM d LIMIT 2 OFFSET 1`, `INSERT INTO e SELECT id, v FROM d ORDER BY id OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY`, `INSERT INTO e SELECT id, v FROM d LIMIT ROWS EXAMINED 1000`,
		`INSERT INTO d (v, i) VALUES (NVL(NULL, 'x'), 1)`, `UPDATE d SET v=!0 WHERE!(id<>1)`, `INSERT INTO d (id, v) VALUES (1, 'up') ON DUPLICATE KEY UPDATE v = VALUE(v)`, `DELETE FROM d WHERE id IN (VALUES (1), (2))`)
	return all
}
