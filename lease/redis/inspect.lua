-- KEYS: the resource.
local s = read(KEYS[1])
return {s.owner, s.epoch, s.mark, text(s.expiry), text(s.expiry - now), s.mark_grant}
