-- Counts the PENDING jobs of a range that have been tried before. ARGV[2] priority; [3] first and [4] last index in the
-- order of run_after. Returns {number of jobs in the range, number tried before}.
-- parts: records
local members = redis.call('ZRANGE', prefix .. 'p' .. ARGV[2], ARGV[3], ARGV[4])
local tried = 0
for _, line in ipairs(read_fields(JOBS, members)) do
  if line then
    local _, _, allowed, remaining = string.match(line, RECORD)
    if tonumber(remaining) < tonumber(allowed) then
      tried = tried + 1
    end
  end
end
return {#members, tried}
