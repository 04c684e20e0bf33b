-- Acquires tokens from the bucket of a rate-limited queue, or gives some back. The bucket is a moment in epoch
-- microseconds: its tokens are spent up to then. No key means a full bucket, so the key may expire once it is full.
-- ARGV[2] microseconds between two tokens; [3] size of the bucket in microseconds; [4] tokens wanted, below 0 to
-- give some back.
-- Returns {tokens acquired, milliseconds until the next token}.
-- parts: when_full
local interval, most, wanted = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local now_us = now * 1000
local spent_until = tonumber(redis.call('GET', prefix .. 'bucket') or 0)
local ahead = spent_until - now_us
local is_wrong = ahead > 1000000 -- more than clocks may differ: a wrong clock wrote it
local saved = math.min(math.max(-ahead, 0), most)
local taken = math.min(wanted, math.floor((saved + 0.5) / interval))
local left = math.floor(math.min(saved - taken * interval, most) + 0.5)
if ahead > 0 and taken == 0 and not is_wrong then
  return {0, math.ceil((interval + ahead) / 1000)}
end
if taken ~= 0 or is_wrong then
  local expiry = string.format('%d', most / 1000 + 3600000)
  redis.call('SET', prefix .. 'bucket', string.format('%.0f', now_us - left), 'PX', expiry)
end
return {taken, math.ceil(math.max(interval - left - 0.5, 0) / 1000)}
