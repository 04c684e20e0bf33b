-- Finds children, in any queue, that have to be cancelled with their parents. KEYS[1] is a key of the shard. ARGV[2]:
-- MessagePack, a list of the addresses of parents, see inboxes.lua; [3] limit.
-- Returns {the addresses of the children; 1 if there are none so far, but it is to be called again}.
-- standalone
-- parts: clock chunks no_queue records failures key_rates key_entries key_turns keys successes families inboxes
local inboxes, found, limit, is_unfinished = open_inboxes(), {}, tonumber(ARGV[3]), false
for _, address in ipairs(cmsgpack.unpack(ARGV[2])) do
  is_unfinished = inboxes.find_children(address, found, limit - #found) or is_unfinished
end
return {found, #found == 0 and is_unfinished and 1 or 0}
