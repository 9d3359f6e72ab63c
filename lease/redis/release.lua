-- KEYS: the resource. ARGV: owner, epoch, grant, a fresh grant, the channel, the
-- resource's name.
local s = read(KEYS[1])
if s.released == ARGV[4] then
	return {'ok'} -- sent again, because the answer was lost; others may hold it by now
end
local outcome = judge(s, ARGV[1], ARGV[2], ARGV[3])
if outcome ~= 'ok' then
	return {outcome, s.owner, s.epoch, s.mark}
end
if s.epoch == MAX then
	return {'exhausted'}
end
free(KEYS[1], s, ARGV[4], ARGV[5], ARGV[6])
return {'ok'}
