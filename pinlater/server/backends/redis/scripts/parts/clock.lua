-- ARGV[1] is the time in epoch milliseconds. Behind "~" it is what the asking server's clock shows, which does not step: then
-- this server's own clock counts while it is near, and that one when it is not, since this one was set. Empty: this
-- server's own clock counts, whatever it shows.
local NEAR_MS = 250
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  local steady = tonumber(string.sub(ARGV[1], 2))
  if steady then
    now = math.min(math.max(now, steady - NEAR_MS), steady + NEAR_MS)
  end
end
local NOW = string.format('%d', now)

