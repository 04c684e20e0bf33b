-- Finds children, in any queue, that have to be cancelled with their parents. ARGV[2]: MessagePack, a list of ids of
-- parents; [3] limit; [4] "links".
-- Returns the addresses of the children, see inboxes.lua.
-- parts: records features failures key_rates keys successes inboxes
local inboxes, found, limit = open_inboxes(), {}, tonumber(ARGV[3])
for _, id in ipairs(cmsgpack.unpack(ARGV[2])) do
  inboxes.find_children(prefix .. 'children:' .. member_of(id), found, limit - #found)
end
return found
