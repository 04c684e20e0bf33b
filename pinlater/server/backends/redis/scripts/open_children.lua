-- Finds children of jobs that run or wait and are not asked to stop, in any queue. Children whose queue was deleted,
-- and those that servers of earlier versions have ended, are forgotten on the way. ARGV[2]: MessagePack, a list of ids
-- of parents; [3] limit; [4] "links".
-- Returns their addresses, see inboxes.lua.
-- parts: records features failures key_rates keys inboxes
local inboxes = open_inboxes()
local found, left = {}, tonumber(ARGV[3])
for _, id in ipairs(cmsgpack.unpack(ARGV[2])) do
  local key, before = prefix .. 'children:' .. member_of(id), #found
  local some, gone
  repeat -- until some are found, or there are none
    some, gone = left > 0 and redis.call('SRANDMEMBER', key, left) or {}, {}
    for _, child in ipairs(some) do
      if inboxes.is_open(child) then
        found[#found + 1] = child
      else
        gone[#gone + 1] = child
      end
    end
    call_in_chunks('SREM', key, gone)
  until #found > before or #gone == 0
  left = left - (#found - before)
end
return found
