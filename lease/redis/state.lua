-- What each script begins with. A resource is one hash: owner and expiry (µs since
-- 1970; both absent where it is free), epoch and grant of the newest grant, mark and
-- mark_grant of the guarded storage, released: which release came last. It has no TTL: a counter must not expire.
--
-- Epochs and grants are strings here, because Lua's numbers are doubles, and
-- are exact up to 2^53 only. Times are far below that.
local now
do
	local t = redis.call('TIME')
	now = t[1] * 1000000 + t[2]
end
local MAX = '9223372036854775807'
local function above(a, b) -- of decimal numbers that are not negative
	if #a ~= #b then
		return #a > #b
	end
	return a > b
end
local function text(n)
	return string.format('%.0f', n)
end
local function read(key)
	local f = redis.call('HMGET', key, 'owner', 'epoch', 'grant', 'expiry', 'mark', 'mark_grant', 'released')
	return {
		owner = f[1] or '', epoch = f[2] or '0', grant = f[3] or '0', expiry = tonumber(f[4] or '0'),
		mark = f[5] or '0', mark_grant = f[6] or '0', released = f[7],
	}
end
-- judge says what a claim is worth, in the order that all stores keep.
local function judge(s, owner, epoch, grant)
	if s.owner == '' or s.owner ~= owner then
		return 'not_owner'
	elseif s.expiry <= now then
		return 'lapsed'
	elseif s.epoch == epoch and s.grant == grant and s.mark == epoch and s.mark_grant == grant then
		return 'ok'
	end
	return 'epoch_mismatch'
end
-- mint moves epoch and mark to one above top.
local function mint(key, top, grant)
	redis.call('HSET', key, 'epoch', top)
	redis.call('HINCRBY', key, 'epoch', 1) -- whose answer is a double
	local epoch = redis.call('HGET', key, 'epoch')
	redis.call('HSET', key, 'grant', grant, 'mark', epoch, 'mark_grant', grant)
	return epoch
end
-- free makes a resource free under a grant that nobody has, and tells whoever waits.
local function free(key, s, grant, channel, resource)
	mint(key, s.epoch, grant)
	redis.call('HSET', key, 'released', grant)
	redis.call('HDEL', key, 'owner', 'expiry')
	redis.pcall('PUBLISH', channel, resource) -- a role without the right to it still releases
end
