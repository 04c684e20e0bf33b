-- IN_PROGRESS -> SUCCEEDED; or PENDING after the delay, with one attempt less; or FAILED after the last attempt.
-- ARGV[2]: MessagePack {groups, singles}. A group is successes without a status: {claim or nil, priority, ids}. A
-- single is any other ack: {is_success, id, priority, claim or nil, status, delay in ms, is_final}.
-- Returns {now, number of jobs changed, number of those that are now FAILED, number of others let through}.
-- parts: records has_keys keys due_index changes custom_status
local request = cmsgpack.unpack(ARGV[2])
local groups, singles = request[1], request[2]
local LAST_EXACT, END_OF_TIME = 2 ^ 53, '9223372036854775807'
local changed, failed = 0, 0

local members, lines = {}, {}
for _, group in ipairs(groups) do
  for at, id in ipairs(group[3]) do
    local member = member_of(id)
    group[3][at] = member
    members[#members + 1] = member
  end
end
for _, item in ipairs(singles) do
  item[2] = member_of(item[2])
  members[#members + 1] = item[2]
end
local befores = read_fields(JOBS, members)
for at, line in ipairs(befores) do
  lines[members[at]] = line
end

-- Returns the fields of a job if this claim (nil: any claim) holds it; nothing otherwise.
local function held_fields(member, wanted_priority, wanted_claim)
  local line = lines[member]
  if not line then
    return
  end
  local state, priority, allowed, remaining, created, run_after, _, lease, bytes, claim = string.match(line, RECORD)
  if state == IN_PROGRESS and tonumber(priority) == wanted_priority and (not wanted_claim or claim == wanted_claim) then
    return priority, allowed, remaining, created, run_after, lease, bytes, claim
  end
end

local function succeed(member, priority, allowed, remaining, created, run_after, lease, bytes, claim)
  local line = record(SUCCEEDED, priority, allowed, remaining, created, run_after, NOW, lease, bytes, claim)
  lines[member] = line
  write_record(member, line)
  finish('s', priority, run_after, member)
  leaving[#leaving + 1] = member
  changed = changed + 1
end

local function fail(member, delay, is_final, ...)
  local retry_at = now + math.max(delay, 0)
  local text = retry_at < LAST_EXACT and string.format('%d', retry_at) or END_OF_TIME
  local is_last
  lines[member], is_last = end_attempt(member, is_final, text, ...)
  changed = changed + 1
  failed = failed + (is_last and 1 or 0)
end

for _, group in ipairs(groups) do
  for _, member in ipairs(group[3]) do
    local priority, allowed, remaining, created, run_after, lease, bytes, claim = held_fields(member, group[2], group[1])
    if priority then
      succeed(member, priority, allowed, remaining, created, run_after, lease, bytes, claim)
    end
  end
end
for _, item in ipairs(singles) do
  local is_success, member, status = item[1], item[2], item[5]
  local priority, allowed, remaining, created, run_after, lease, bytes, claim = held_fields(member, item[3], item[4])
  if priority then
    if is_success then
      succeed(member, priority, allowed, remaining, created, run_after, lease, bytes, claim)
    else
      fail(member, item[6], item[7], priority, allowed, remaining, created, run_after, lease, bytes, claim)
    end
    if status ~= '' then
      extend_status(member, '', status)
    end
  end
end
apply_changes()
return {NOW, changed, failed, keyed and keyed.note_and_turn(members, befores) or 0}
