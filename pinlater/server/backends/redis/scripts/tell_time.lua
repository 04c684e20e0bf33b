-- What this server's own clock shows, and the time that the servers of the shard go by: the same, but for a step of the
-- clock, which they follow slowly, all of them alike. KEYS[1] keeps "<how far their time is ahead of this clock, in ms>
-- <when one of them was here>". ARGV[1] "~" and what the asking server's clock shows; else that has to be set yet.
-- Returns both, in epoch milliseconds with a fraction.
-- alone
local FRESH_MS, KEPT_MS = 6000, 3600000
local time = redis.call('TIME')
local own = time[1] * 1000 + time[2] / 1000
local ahead, seen = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%S+)$')
ahead = tonumber(ahead or 0)
-- A step makes the last visit seem long ago, or yet to come. Then, and when there was none, nobody knows better than who asks.
local passed = own - tonumber(seen or 0)
local is_fresh = passed >= 0 and passed <= FRESH_MS
local shown = tonumber(string.match(ARGV[1], '^~(%d+)$'))
if shown and (not is_fresh or math.abs(shown - own - ahead) <= FRESH_MS) then
  ahead = shown - own
  -- A server that is full or stands still for its disk tells the time all the same.
  redis.pcall('SET', KEYS[1], string.format('%.3f %.3f', ahead, own), 'PX', KEPT_MS)
elseif not is_fresh then
  ahead = 0
end
return {string.format('%.3f', own), string.format('%.3f', own + ahead)}
