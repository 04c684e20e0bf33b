-- IN_PROGRESS -> IN_PROGRESS with a new lease, or PENDING with no attempt spent; only for the holder of the claim.
-- ARGV[2]: MessagePack, a list of {id, priority, claim or nil, source, index of the body or nil, whether to move to
-- PENDING, run_after or nil (unchanged if there is a claim, else now), attempts or nil, status to prepend}. ARGV[3]
-- on: the bodies.
-- Returns {now, number of jobs changed, list indexes of those moved to PENDING, list indexes of the others that the
-- claim no longer holds, number of other jobs let through}.
-- parts: records has_keys keys due_index changes custom_status claim_source
local items = cmsgpack.unpack(ARGV[2])
local members, lines = {}, {}
for at, item in ipairs(items) do
  members[at] = member_of(item[1])
end
local befores = read_fields(JOBS, members)
for at, line in ipairs(befores) do
  lines[members[at]] = line
end

local function is_held(claim, item)
  if item[3] then
    return claim == item[3]
  end
  return source_of(claim) == item[4]
end

local changed, back, lost = 0, {}, {}
for at, item in ipairs(items) do
  local member = members[at]
  local line = lines[member]
  local state, priority, allowed, remaining, created, planned, _, lease, bytes, claim = string.match(line or '', RECORD)
  if state == IN_PROGRESS and tonumber(priority) == item[2] and is_held(claim, item) then
    local body, is_back, attempts, status = item[5] and ARGV[item[5] + 2], item[6], item[8], item[9]
    local run_after = item[3] and not item[7] and planned or time_text(item[7])
    if body then
      redis.call('HSET', prefix .. 'bodies', member, body)
      bytes = #body
    end
    if attempts then
      allowed = string.format('%d', attempts)
      remaining = allowed
    end
    if status ~= '' then
      extend_status(member, status, '')
    end
    if is_back then
      state, claim = PENDING, ''
      add_member(prefix .. 'p' .. priority, run_after, member)
      leaving[#leaving + 1] = member
      back[#back + 1] = at - 1
    else
      add_member(CLAIMS, string.format('%d', now + lease), member)
    end
    lines[member] = record(state, priority, allowed, remaining, created, run_after, NOW, lease, bytes, claim)
    write_record(member, lines[member])
    changed = changed + 1
  elseif not item[6] then
    lost[#lost + 1] = at - 1
  end
end
apply_changes()
return {NOW, changed, back, lost, keyed and keyed.note_and_turn(members, befores) or 0}
