-- KEYS: the resource. ARGV: epoch, grant. Returns the mark afterwards.
local s = read(KEYS[1])
if above(ARGV[1], s.mark) then
	redis.call('HSET', KEYS[1], 'mark', ARGV[1], 'mark_grant', ARGV[2])
	return {ARGV[1], ARGV[2]}
end
return {s.mark, s.mark_grant}
