package mysql_test

import (
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// SPEC §1: names of resources are compared byte for byte, whatever the session does
// to strings. A server that converts 本 and 日 to latin1 makes a question mark of
// either, and one that converts [ to swe7 too.
func TestNamesAreComparedByteForByte(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		mark := guard.Token{Resource: "?", Epoch: 9, Grant: 90}
		valid := guard.Token{Resource: "日", Epoch: 3, Grant: 30}
		bracket := guard.Token{Resource: "[", Epoch: 4, Grant: 40}
		own := guard.NewFence(w.Bare, sqlgen.MySQL)
		for _, token := range []guard.Token{mark, valid, bracket} {
			w.Want("Advance "+token.Resource, own.Advance(t.Context(), token), nil)
		}
		for _, change := range []string{
			`SET character_set_connection = latin1`, `SET character_set_connection = ascii`, `SET character_set_connection = swe7`,
			`SET collation_connection = utf8mb3_general_ci`, `SET character_set_connection = utf16`, `SET NAMES latin1`, `SET NAMES utf8mb4`,
		} {
			c := w.Conn(w.Fenced)
			w.Must(c, change)
			fence := guard.NewFence(c, sqlgen.MySQL)
			for _, text := range []string{
				`UPDATE d SET v = 'x'`, `INSERT INTO d (id, v) VALUES (8, 'x')`, `INSERT INTO d (id, v) VALUES (8, 'x'), (9, UPPER('y'))`,
				`INSERT IGNORE INTO d (id, v) VALUES (8, 'x')`, `DELETE FROM d WHERE 1 = 0`,
			} {
				for _, name := range []string{"本", "é", "{", "😀"} {
					unknown := guard.Token{Resource: name, Epoch: 9, Grant: 90}
					w.Want(change+": "+text+", "+name, second(c.ExecContext(w.With(unknown), text)), guard.ErrUnregistered)
					w.Want(change+": Check "+name, fence.Check(t.Context(), unknown), guard.ErrUnregistered)
					w.IsUntouched()
				}
				for _, token := range []guard.Token{valid, bracket} {
					w.Want(change+": "+text+", "+token.Resource, second(c.ExecContext(w.With(token), text)), nil)
					w.Want(change+": Check "+token.Resource, fence.Check(t.Context(), token), nil)
					w.Reset()
				}
			}
			if mark, err := fence.HighWater(t.Context(), "本"); mark != 0 || err != nil {
				t.Errorf("%s: the mark of 本 is %d, %v", change, mark, err)
			}
			if mark, err := fence.HighWater(t.Context(), "日"); mark != 3 || err != nil {
				t.Errorf("%s: the mark of 日 is %d, %v", change, mark, err)
			}
			w.Want(change+": Advance", fence.Advance(t.Context(), valid), nil)
			w.Want("Close", c.Close(), nil)
		}
	})
}
