-- Nothing -> PENDING, all jobs of a call or none.
-- ARGV[2]: MessagePack, a list of jobs, each {priority, run_after or nil, attempts, status, unique key or nil}; a
-- run_after that a number would not hold is a text. ARGV[3] on: their bodies.
-- Returns the id before the first one, then for each job that was there already: its place in the call, its
-- priority, its member.
-- with records
local jobs = cmsgpack.unpack(ARGV[2])
local last = redis.call('INCRBY', KEYS[1] .. ':ids', #jobs)
local first = last - #jobs
local there = {string.format('%.0f', first)}
local records, bodies, statuses, pending = {}, {}, {}, {}
local at = 0
for number, job in ipairs(jobs) do
  local body, priority, key = ARGV[number + 2], job[1], job[5]
  local held = key and redis.call('HGET', prefix .. 'unique', key)
  if held then
    local held_priority, held_member = string.match(held, '^(%d+) (.*)$')
    there[#there + 1] = number - 1
    there[#there + 1] = held_priority
    there[#there + 1] = held_member
  else
    local member = member_of(first + number)
    local run_after = time_text(job[2])
    local attempts = string.format('%.0f', job[3])
    if key then
      redis.call('HSET', prefix .. 'unique', key, priority .. ' ' .. member)
      redis.call('HSET', prefix .. 'keys', member, key)
    end
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
