-- IN_PROGRESS -> SUCCEEDED; or PENDING after the delay, with one attempt less; or FAILED after the last attempt.
-- ARGV[2]: MessagePack {groups, singles, failures or nil}. A group has successes without a status: {claim or nil,
-- priority, ids, indexes of the results or nil if they have none, run times in ms or nil; 0: do not store it}. A single
-- is any other ack: {is_success, id, priority, claim or nil, status, delay in ms, is_final, index of the result or nil,
-- whether it was cancelled, id of the failure group or nil, run time in ms or nil}. Failures are {budget, groups}, see
-- failure_groups.lua. ARGV[3] on: the results, then "links" if any job was cancelled. A job that is asked to stop
-- becomes FAILED instead of PENDING, unless it has something to undo.
-- Returns {now, number of jobs changed, number of those that are now FAILED, number of others let through, ended
-- sleeps: see links.lua}.
-- parts: when_full records features failures key_rates key_entries key_turns keys due_index changes custom_status successes families inboxes links failure_groups
local request = cmsgpack.unpack(ARGV[2])
local groups, singles = request[1], request[2]
local LAST_EXACT, END_OF_TIME = 2 ^ 53, '9223372036854775807'
local changed, failed = 0, 0
local failing, succeeded_late = {}, {}

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
linked = open_links and open_links(members)
local results = {}

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

local function succeed(member, run_ms, priority, allowed, remaining, created, run_after, lease, bytes, claim)
  lease = (run_ms or 0) > 0 and string.format('0%d', run_ms) or lease
  local line = record(SUCCEEDED, priority, allowed, remaining, created, run_after, NOW, lease, bytes, claim)
  lines[member] = line
  write_record(member, line)
  finish('s', priority, run_after, member)
  leaving[#leaving + 1] = member
  changed = changed + 1
  if may_have_failed(allowed, remaining, bytes) then
    succeeded_late[#succeeded_late + 1] = member
  end
end

local function keep_result(member, index)
  local result = ARGV[index + 2]
  results[#results + 1] = member
  results[#results + 1] = result
  return result
end

-- Records the failures of jobs, and replaces their groups in "failing" by those that they are kept in. The failures of
-- stale acks are not recorded.
local function keep_failures(budget, told)
  local groups = {}
  for at = 2, #failing, 2 do
    groups[failing[at]] = told[failing[at]]
  end
  local kept = keep_groups(budget, groups)
  for at = 2, #failing, 2 do
    failing[at] = kept[failing[at]]
  end
end

-- Ends an attempt that failed. Returns whether the job is FAILED now.
local function fail(member, delay, is_final, ...)
  local retry_at = now + math.max(delay, 0)
  local text = retry_at < LAST_EXACT and string.format('%d', retry_at) or END_OF_TIME
  local is_last
  lines[member], is_last = end_attempt(member, is_final, text, ...)
  changed = changed + 1
  failed = failed + (is_last and 1 or 0)
  return is_last
end

for _, group in ipairs(groups) do
  for at, member in ipairs(group[3]) do
    local priority, allowed, remaining, created, run_after, lease, bytes, claim = held_fields(member, group[2], group[1])
    if priority then
      local run_ms = group[5] and group[5][at]
      succeed(member, run_ms, priority, allowed, remaining, created, run_after, lease, bytes, claim)
      local result = group[4] and keep_result(member, group[4][at])
      if linked then
        linked.note(member, priority, SUCCEEDED, result)
      end
    end
  end
end
for _, item in ipairs(singles) do
  local is_success, member, status = item[1], item[2], item[5]
  local priority, allowed, remaining, created, run_after, lease, bytes, claim = held_fields(member, item[3], item[4])
  if priority then
    local state = SUCCEEDED
    if is_success then
      succeed(member, item[11], priority, allowed, remaining, created, run_after, lease, bytes, claim)
    else
      if item[9] then
        linked.mark(member, priority)
      end
      local is_asked = linked and linked.is_cancelled(member)
      local is_final = item[7] or is_asked and linked.is_to_end(member)
      state = fail(member, item[6], is_final, priority, allowed, remaining, created, run_after, lease, bytes, claim)
        and FAILED or PENDING
      local group = not is_asked and item[10]
      if group then
        failing[#failing + 1] = member
        failing[#failing + 1] = group
      end
      local members = group and tried or over
      members[#members + 1] = member
    end
    if status ~= '' then
      extend_status(member, '', status)
    end
    local result = is_success and item[8] and keep_result(member, item[8])
    if linked then
      linked.note(member, priority, state, result)
    end
  end
end
call_in_chunks('HSET', prefix .. 'results', results)
call_in_chunks('HDEL', prefix .. 'failing', succeeded_late)
if #failing > 0 then
  keep_failures(request[3][1], request[3][2])
end
call_in_chunks('HSET', prefix .. 'failing', failing)
local through = apply_and_turn(members, befores, lines)
return {NOW, changed, failed, through, linked and linked.tell()}
