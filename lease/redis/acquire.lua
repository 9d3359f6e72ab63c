-- KEYS: the resource, the mark of an abandoned request.
-- ARGV: owner, TTL in µs, new|refuse|extend, the grant to use, the floor of epochs.
local s = read(KEYS[1])
local live = s.owner ~= '' and s.expiry > now
local mine = live and s.owner == ARGV[1]
if s.owner == ARGV[1] and s.grant == ARGV[4] then
	-- The client has sent the request again, because the answer was lost. What it
	-- was granted may have lapsed since; it is not granted a second time.
	return {'ok', s.epoch, s.grant, text(s.expiry), text(s.expiry - now)}
end
if live and (not mine or ARGV[3] == 'refuse') then
	return {'held', s.owner, text(s.expiry - now)}
end
if redis.call('EXISTS', KEYS[2]) == 1 then
	return {'abandoned'}
end
local expiry = text(now + ARGV[2])
if mine and ARGV[3] == 'extend' and s.mark == s.epoch and s.mark_grant == s.grant and not above(ARGV[5], s.epoch) then
	redis.call('HSET', KEYS[1], 'expiry', expiry)
	return {'ok', s.epoch, s.grant, expiry, ARGV[2]}
end
local top = s.epoch
if above(s.mark, top) then top = s.mark end
if above(ARGV[5], top) then top = ARGV[5] end
if top == MAX then
	return {'exhausted'}
end
local epoch = mint(KEYS[1], top, ARGV[4])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'expiry', expiry)
return {'ok', epoch, ARGV[4], expiry, ARGV[2]}
