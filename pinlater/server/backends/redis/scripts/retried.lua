-- How many PENDING jobs were tried before, of some of a priority in the order of run_after. ARGV[2] priority; [3] and [4]
-- the places of the first and the last. Returns {how many jobs there were, how many were tried before}.
-- with records
local members = redis.call('ZRANGE', prefix .. 'p' .. ARGV[2], ARGV[3], ARGV[4])
local tried = 0
for _, line in ipairs(read(JOBS, members)) do
  if line then
    local _, _, allowed, remaining = string.match(line, RECORD)
    if tonumber(remaining) < tonumber(allowed) then
      tried = tried + 1
    end
  end
end
return {#members, tried}
