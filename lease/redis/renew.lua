-- KEYS: resources. ARGV, four for each: owner, epoch, grant, TTL in µs.
local answers = {}
for i, key in ipairs(KEYS) do
	local s, a = read(key), 4 * i - 3
	local outcome = judge(s, ARGV[a], ARGV[a + 1], ARGV[a + 2])
	if outcome == 'ok' then
		local expiry = text(now + ARGV[a + 3])
		redis.call('HSET', key, 'expiry', expiry)
		answers[i] = {'ok', expiry}
	else
		answers[i] = {outcome, s.owner, s.epoch, s.mark}
	end
end
return answers
