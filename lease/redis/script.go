package redis

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sqlfence/sqlfence/guard"
)

//go:embed state.lua
var stateLua string

//go:embed acquire.lua
var acquireLua string

//go:embed abandon.lua
var abandonLua string

//go:embed renew.lua
var renewLua string

//go:embed release.lua
var releaseLua string

//go:embed inspect.lua
var inspectLua string

//go:embed advance.lua
var advanceLua string

// Each is sent by its hash, and as a whole where the server has forgotten it
// (CASES D35).
var (
	acquireScript = goredis.NewScript(stateLua + acquireLua)
	abandonScript = goredis.NewScript(stateLua + abandonLua)
	renewScript   = goredis.NewScript(stateLua + renewLua)
	releaseScript = goredis.NewScript(stateLua + releaseLua)
	inspectScript = goredis.NewScript(stateLua + inspectLua)
	advanceScript = goredis.NewScript(stateLua + advanceLua)
)

// refusal is how the prelude of a guarded script tells of a token that does not
// pass.
const refusal = "SQLFENCE"

// prelude checks the token before the user's text runs, in the same script: no
// mark moves in between. It takes the fence's key and the token off the end of
// KEYS and ARGV. One line, so that the lines of the text keep their numbers, and no
// local variable is left of it: the text has all that Lua allows a function.
const prelude = `do local n,a=#KEYS,#ARGV local m=redis.call('HMGET',KEYS[n],'mark','mark_grant') ` +
	`if m[1]~=ARGV[a-1] or m[2]~=ARGV[a] then ` +
	`return redis.error_reply('` + refusal + ` '..(m[1] or '0')..' '..(m[2] or '0')) end ` +
	`KEYS[n],ARGV[a],ARGV[a-1]=nil end `

// Script is a Lua script of the user's that writes only under a valid token. It
// is safe for concurrent use.
type Script struct {
	store  *Store
	script *goredis.Script
}

// Script makes a guarded script of a Lua text. The text sees the KEYS and ARGV
// that Run is given, and may begin with a line "#!lua …".
func (s *Store) Script(text string) *Script {
	first := ""
	if strings.HasPrefix(text, "#!") {
		line, rest, _ := strings.Cut(text, "\n")
		first, text = line+"\n", rest
	}
	return &Script{store: s, script: goredis.NewScript(first + prelude + text)}
}

// Run runs the script if the token passes the mark of its resource in this
// store, as one step: a takeover comes before it or after it. The result is as
// [goredis.Cmd.Result] gives it. If the token does not pass, nothing of the
// text was run, and the error is a *[guard.FencedError] or a
// *[guard.UnregisteredError].
//
// go-redis may send a script again whose answer was lost (MaxRetries), and what has
// been run is then run twice: make it so that this does no harm, or set MaxRetries to
// -1.
//
// Redis Cluster wants all keys of a script in one slot: put the
// [Store.Tag] of the resource into their names.
func (s *Script) Run(ctx context.Context, token guard.Token, keys []string, args ...any) (any, error) {
	if err := token.Validate(); err != nil {
		return nil, err
	}
	all := append(append(make([]string, 0, len(keys)+1), keys...), s.store.Key(token.Resource))
	argv := append(append(make([]any, 0, len(args)+2), args...),
		strconv.FormatInt(token.Epoch, 10), strconv.FormatInt(token.Grant, 10))
	result, err := s.script.Run(ctx, s.store.client, all, argv...).Result()
	if refused := parseRefusal(err, token); refused != nil {
		return nil, refused
	}
	return result, err
}

// parseRefusal returns what the prelude's refusal means, or nil.
func parseRefusal(err error, token guard.Token) error {
	var answer goredis.Error
	if !errors.As(err, &answer) {
		return nil
	}
	rest, ok := strings.CutPrefix(answer.Error(), refusal+" ")
	if !ok {
		return nil
	}
	var mark, grant int64
	if _, scanErr := fmt.Sscanf(rest, "%d %d", &mark, &grant); scanErr != nil {
		return nil
	}
	if judged := guard.Judge(token, mark, grant); judged != nil {
		return judged
	}
	return err // it was refused all the same
}
