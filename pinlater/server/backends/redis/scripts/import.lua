-- Nothing -> the state that a job had in another store, with its history; all jobs of a call or none.
-- ARGV[2] idempotency key or empty, [3] for how many ms its result is kept. [4]: MessagePack, a list of jobs, each
-- {priority, state (none is claimed), attempts allowed, attempts remaining, status, created, run_after, updated, unique key
-- or nil}; a time that a number would not hold is a text. ARGV[5] on: their bodies.
-- Returns the same as enqueue.
-- with records earliest changes keys results
local known = recall(ARGV[2])
if known then
  return known
end
local jobs = cmsgpack.unpack(ARGV[4])
local first = redis.call('INCRBY', KEYS[1] .. ':ids', #jobs) - #jobs
local there = {string.format('%d', first)}
local KINDS = {[PENDING] = 'p', [SUCCEEDED] = 's', [FAILED] = 'f'}
local bodies, statuses = {}, {}
for number, job in ipairs(jobs) do
  local priority, state, status, key = job[1], string.format('%d', job[2]), job[5], job[9]
  if not is_there(key, number, there) then
    local member, body = member_of(first + number), ARGV[number + 4]
    local allowed, remaining = string.format('%d', job[3]), string.format('%d', job[4])
    local created, run_after, updated = time_text(job[6]), time_text(job[7]), time_text(job[8])
    keep_key(key, priority, member)
    put(member, record(state, priority, allowed, remaining, created, run_after, updated, 0, #body, ''))
    enter(prefix .. KINDS[state] .. priority, run_after, member)
    if state ~= PENDING then
      enter(prefix .. string.upper(KINDS[state]), updated, member)
    end
    bodies[#bodies + 1] = member
    bodies[#bodies + 1] = body
    if status ~= '' then
      statuses[#statuses + 1] = member
      statuses[#statuses + 1] = status
    end
  end
end
all('HSET', prefix .. 'bodies', bodies)
all('HSET', prefix .. 'status', statuses)
carry_out()
keep(ARGV[2], ARGV[3], there)
return there
