-- Forgets failure groups of a queue that have been empty for long. ARGV[2] how long after its last failure, in ms; [3]
-- the same if the queue has at least as many groups as [4]; [5] when to look again, in ms from now.
-- Returns the number of groups forgotten.
-- parts: due_index
local last = redis.call('ZRANGE', prefix .. 'failed_last', 0, -1, 'WITHSCORES')
local idle = tonumber(#last / 2 >= tonumber(ARGV[4]) and ARGV[3] or ARGV[2])
local gone = {}
for at = 1, #last, 2 do
  local group = prefix .. 'g' .. last[at]
  if now - last[at + 1] >= idle and redis.call('EXISTS', group .. ':p', group .. ':f') == 0 then
    gone[#gone + 1] = last[at]
  end
end
call_in_chunks('ZREM', prefix .. 'failed_last', gone)
call_in_chunks('HDEL', prefix .. 'failures', gone)
if #gone < #last / 2 then
  redis.call('ZADD', SHARD .. '}:earliest:failures', now + ARGV[5], QUEUE)
else
  redis.call('ZREM', SHARD .. '}:earliest:failures', QUEUE)
end
return #gone
