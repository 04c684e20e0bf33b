-- ARGV[1] is the time in epoch milliseconds. After "~", it is the time of the calling server's steady clock: then the
-- clock of this Redis counts, clamped to within NEAR_MS of that time in case it was set. If ARGV[1] is empty, the clock
-- of this Redis counts, whatever it shows.
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

