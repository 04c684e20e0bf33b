-- Reads messages for another shard, the oldest first. KEYS[1] is "outgoing", see inboxes.lua; ARGV[2] the name of that
-- shard, [3] limit. [4] empty: only messages that no such call has returned; otherwise all that are this many ms old.
-- Returns {id, fields} for each.
-- standalone
-- parts: when_full
local stream = KEYS[1] .. ':' .. ARGV[2]
local returned = stream .. ':returned'
if ARGV[4] ~= '' then
  local time = redis.call('TIME')
  local before = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[4]
  return redis.call('XRANGE', stream, '-', string.format('%d', before), 'COUNT', ARGV[3])
end
local found = redis.call('XREAD', 'COUNT', ARGV[3], 'STREAMS', stream, redis.call('GET', returned) or '0')
if not found then
  return {}
end
local entries = found[1][2]
redis.call('SET', returned, entries[#entries][1])
return entries
