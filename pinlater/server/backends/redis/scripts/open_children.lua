-- Finds children, in any queue, that have to be cancelled with their parents. ARGV[2]: MessagePack, a list of ids of
-- parents; [3] limit; [4] "links".
-- Returns {the addresses of the children, see inboxes.lua; 1 if there are none so far, but it is to be called again}.
-- parts: records features failures key_rates key_entries key_turns keys successes families inboxes
local inboxes, found, limit, is_unfinished = open_inboxes(), {}, tonumber(ARGV[3]), false
for _, id in ipairs(cmsgpack.unpack(ARGV[2])) do
  is_unfinished = inboxes.find_children(prefix .. 'children:' .. member_of(id), found, limit - #found) or is_unfinished
end
return {found, #found == 0 and is_unfinished and 1 or 0}
