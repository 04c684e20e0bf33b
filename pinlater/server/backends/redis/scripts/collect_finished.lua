-- SUCCEEDED or FAILED for longer than an age -> deleted, the oldest first.
-- ARGV[2] "s" or "f": succeeded or failed; [3] minimum age in ms; [4] limit.
-- Returns the number of jobs deleted.
-- parts: when_full records due_index any_links families forget_links failing_jobs failures
local kind = ARGV[2]
local by_finish = prefix .. string.upper(kind)
local before = '(' .. string.format('%d', now - ARGV[3])
local members = redis.call('ZRANGEBYSCORE', by_finish, '-inf', before, 'LIMIT', 0, ARGV[4])
local by_priority = {}
for at, line in ipairs(read_fields(JOBS, members)) do
  local priority = string.match(line or '', '^%d (%d+)')
  if priority then
    local list = by_priority[priority] or {}
    by_priority[priority] = list
    list[#list + 1] = members[at]
  end
end
for priority, list in pairs(by_priority) do
  call_in_chunks('ZREM', prefix .. kind .. priority, list)
end
if #members > 0 then
  redis.call('ZREMRANGEBYRANK', by_finish, 0, #members - 1)
end
if kind == 'f' then
  settle_failing(prefix, members, true)
end
call_in_chunks('HDEL', JOBS, members)
call_in_chunks('HDEL', prefix .. 'bodies', members)
call_in_chunks('HDEL', prefix .. 'status', members)
call_in_chunks('HDEL', prefix .. 'job_keys', members)
call_in_chunks('HDEL', prefix .. 'job_rates', members)
call_in_chunks('HDEL', prefix .. 'results', members)
if HAS_LINKS then
  forget_links(prefix, members)
  forget_families(members)
end
reindex_due(string.upper(kind))
return #members
