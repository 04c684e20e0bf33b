-- Jobs that finished long ago -> gone, the oldest first. ARGV[2] "s" or "f": succeeded, failed; [3] age in ms that they
-- are past; [4] most jobs.
-- Returns how many.
-- with earliest
local kind = ARGV[2]
local by_finish = prefix .. string.upper(kind)
local before = '(' .. string.format('%d', now - ARGV[3])
local members = redis.call('ZRANGEBYSCORE', by_finish, '-inf', before, 'LIMIT', 0, ARGV[4])
local by_priority = {}
for at, line in ipairs(read(JOBS, members)) do
  local priority = string.match(line or '', '^%d (%d+)')
  if priority then
    local list = by_priority[priority] or {}
    by_priority[priority] = list
    list[#list + 1] = members[at]
  end
end
for priority, list in pairs(by_priority) do
  all('ZREM', prefix .. kind .. priority, list)
end
if #members > 0 then
  redis.call('ZREMRANGEBYRANK', by_finish, 0, #members - 1)
end
all('HDEL', JOBS, members)
all('HDEL', prefix .. 'bodies', members)
all('HDEL', prefix .. 'status', members)
correct(string.upper(kind))
return #members
