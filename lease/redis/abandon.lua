-- KEYS: the resource, the mark of an abandoned request.
-- ARGV: the request's grant, a fresh grant, the channel, the resource's name.
redis.call('SET', KEYS[2], '1', 'PX', 3600000) -- no request is on its way for an hour
local s = read(KEYS[1])
if s.owner ~= '' and s.grant == ARGV[1] and s.epoch ~= MAX then
	free(KEYS[1], s, ARGV[2], ARGV[3], ARGV[4])
end
return {'ok'}
