-- ARGV[1] is the time in epoch milliseconds, or empty: then this server's own clock counts.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local NOW = string.format('%d', now)

