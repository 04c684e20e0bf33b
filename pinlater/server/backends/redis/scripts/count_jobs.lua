-- Counts the jobs of a state by priority. ARGV[2] "p", "s", "f" or "r": pending, succeeded, failed or retrying; or a
-- failure group, as for scan_jobs; [3] "due", "future", "key" for those that wait for their key, or empty for all; [4]
-- first and [5] last priority, both 0 for a failure group.
local low, high = '-inf', '+inf'
if ARGV[3] == 'due' then
  high = NOW
elseif ARGV[3] == 'future' then
  low = '(' .. NOW
elseif ARGV[3] == 'key' then
  low = '4503599627370496'
end
local counts = {}
for priority = tonumber(ARGV[4]), tonumber(ARGV[5]) do
  counts[#counts + 1] = redis.call('ZCOUNT', prefix .. ARGV[2] .. (priority > 0 and priority or ''), low, high)
end
return counts
