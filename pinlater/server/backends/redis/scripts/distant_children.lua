-- The same as open_children for parents on other shards. KEYS[1] is "children"; ARGV[2]: MessagePack, a list of the
-- addresses of parents, see inboxes.lua; [3] limit.
-- Returns the addresses of the children.
-- standalone
-- parts: clock chunks no_queue records failures key_rates keys successes inboxes
local inboxes, found, limit = open_inboxes(), {}, tonumber(ARGV[3])
for _, address in ipairs(cmsgpack.unpack(ARGV[2])) do
  inboxes.find_children(KEYS[1] .. ':' .. address, found, limit - #found)
end
return found
