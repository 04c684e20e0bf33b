-- How much there is to do for the monitor. ARGV[2] and [3]: times before which succeeded and failed jobs are collected,
-- in ms before now.
-- Returns {claims that expired, succeeded and failed jobs to collect}.
local function before(key, age)
  return redis.call('ZCOUNT', prefix .. key, '-inf', '(' .. string.format('%d', now - age))
end
return {redis.call('ZCOUNT', CLAIMS, '-inf', NOW), before('S', ARGV[2]), before('F', ARGV[3])}
