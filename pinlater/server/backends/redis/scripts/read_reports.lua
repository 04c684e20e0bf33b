-- Reads the reports that have not expired, the last to expire first. KEYS[1] as in store_report. ARGV[2] most reports;
-- [3] most bytes.
-- Returns a flat list: worker, time and report as one text, worker, ...
-- standalone
-- parts: clock
local found, left = {}, tonumber(ARGV[3])
for _, worker in ipairs(redis.call('ZREVRANGEBYSCORE', KEYS[1] .. ':expiry', '+inf', '(' .. NOW, 'LIMIT', 0, ARGV[2])) do
  local report = redis.call('HGET', KEYS[1], worker)
  if report then
    left = left - #report + string.find(report, ' ', 1, true)
    if left < 0 then
      break
    end
    found[#found + 1] = worker
    found[#found + 1] = report
  end
end
return found
