-- FAILED -> PENDING with new attempts, the oldest first. ARGV[2] priority, [3] attempts, [4] run_after or empty for
-- now, [5] most jobs.
-- Returns how many.
-- with records changes again
local run_after = ARGV[4] ~= '' and ARGV[4] or NOW
local key, most = prefix .. 'f' .. ARGV[2], tonumber(ARGV[5])
local members = most > 0 and redis.call('ZRANGE', key, 0, most - 1) or {}
for at, line in ipairs(read(JOBS, members)) do
  if line then
    again(members[at], line, ARGV[3], run_after)
  end
end
if #members > 0 then
  redis.call('ZREMRANGEBYRANK', key, 0, #members - 1)
  all('ZREM', prefix .. 'F', members)
end
carry_out()
return #members
