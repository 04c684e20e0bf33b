-- Nothing -> PENDING, all jobs of a call or none.
-- ARGV[2]: MessagePack, a list of jobs, each {priority, run_after or nil, attempts, status, unique key or nil}; a
-- run_after that a number would not hold is a text. ARGV[3] on: their bodies.
-- Returns the id before the first one, then for each job that was there already: its place in the call, its
-- priority, its member.
-- with records keys
local jobs = cmsgpack.unpack(ARGV[2])
local last = redis.call('INCRBY', KEYS[1] .. ':ids', #jobs)
local first = last - #jobs
local there = {string.format('%d', first)}
local records, bodies, statuses, pending = {}, {}, {}, {}
local at = 0
for number, job in ipairs(jobs) do
  local body, priority, key = ARGV[number + 2], job[1], job[5]
  if not is_there(key, number, there) then
    local member = member_of(first + number)
    local run_after = time_text(job[2])
    local attempts = string.format('%d', job[3])
    keep_key(key, priority, member)
    if job[4] ~= '' then
      statuses[#statuses + 1] = member
      statuses[#statuses + 1] = job[4]
    end
    local list = pending[priority]
    if not list then
      list = {}
      pending[priority] = list
    end
    list[#list + 1] = run_after
    list[#list + 1] = member
    records[at + 1] = member
    records[at + 2] = record(PENDING, priority, attempts, attempts, NOW, run_after, NOW, 0, #body, '')
    bodies[at + 1] = member
    bodies[at + 2] = body
    at = at + 2
  end
end
all('HSET', prefix .. 'bodies', bodies)
all('HSET', prefix .. 'status', statuses)
all('HSET', JOBS, records)
for priority, list in pairs(pending) do
  all('ZADD', prefix .. 'p' .. priority, list)
end
return there
