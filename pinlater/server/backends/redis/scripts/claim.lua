-- PENDING and due -> IN_PROGRESS, in the order (priority, run_after, id); then those that these claims let through.
-- ARGV[2] claim, [3] lease in ms, [4] limit, [5] most bytes of the answer (the first job is claimed even if it does
-- not fit), [6] bytes per job in addition to its body, [7] priority levels, [8] "1": return when the next job falls
-- due, [9] "1": dry run, change nothing; [10] most jobs of the queue that may be claimed at once, empty: no limit.
-- Returns {"1" if more may be due, "1" if more may be due but the queue's limit is reached, when the next job falls
-- due or empty, columns as JSON (ids, priorities, attempts allowed, attempts remaining, created, run_after), the
-- bodies, number of other jobs let through}.
-- parts: records features failures key_rates key_entries key_turns keys due_index
local claim, lease = ARGV[2], ARGV[3]
local wanted, bytes_left, overhead = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local levels, is_dry = tonumber(ARGV[7]), ARGV[9] == '1'
local expires = string.format('%d', now + lease)
local is_limited = false
if ARGV[10] ~= '' then
  local free = math.max(ARGV[10] - redis.call('ZCARD', CLAIMS), 0)
  is_limited = free < wanted
  wanted = math.min(wanted, free)
end
local AT_ONCE = 500

local ids, priorities, alloweds, remainings, createds, run_afters, bodies = {}, {}, {}, {}, {}, {}, {}
local count, is_answer_full, is_more = 0, false, false

-- Claims jobs until the answer is full. Returns their members, their new records and claims, and how many of the given
-- members are dealt with, including those whose records Redis has evicted.
local function claim_members(members, lines)
  local taken, records, claims = {}, {}, {}
  for at, line in ipairs(lines) do
    local member = members[at]
    local _, priority, allowed, remaining, created, run_after, _, _, bytes = string.match(line or '', RECORD)
    if bytes then
      bytes_left = bytes_left - bytes - overhead
      if bytes_left < 0 and count > 0 then
        is_answer_full = true
        return taken, records, claims, at - 1
      end
      count = count + 1
      ids[count], priorities[count], alloweds[count] = string.sub(member, 2), priority, allowed
      remainings[count], createds[count], run_afters[count] = remaining, created, run_after
      taken[#taken + 1] = member
      if may_have_failed(allowed, remaining, bytes) then
        tried[#tried + 1] = member
      end
      records[#records + 1] = member
      records[#records + 1] =
        record(IN_PROGRESS, priority, allowed, remaining, created, run_after, NOW, lease, bytes, claim)
      claims[#claims + 1] = expires
      claims[#claims + 1] = member
    end
  end
  return taken, records, claims, #members
end

local through, through_and_due, claimed_before = 0, 0, nil
repeat
  for priority = 1, levels do
    local key, offset = prefix .. 'p' .. priority, 0
    is_more = true
    while is_more and wanted > 0 and not is_answer_full do
      local size = math.min(wanted, AT_ONCE)
      local members = redis.call('ZRANGEBYSCORE', key, '-inf', NOW, 'LIMIT', offset, size + 1)
      is_more = #members > size
      members[size + 1] = nil
      local lines = read_fields(JOBS, members)
      local taken, records, claims, covered = claim_members(members, lines)
      if is_dry then
        offset = offset + covered
      elseif covered > 0 then
        redis.call('ZREMRANGEBYRANK', key, 0, covered - 1) -- must be the first write, see when_full.lua
        call_in_chunks('HSET', JOBS, records)
        call_in_chunks('ZADD', CLAIMS, claims)
        if keyed then
          local new_lines = {}
          for at, member in ipairs(members) do
            new_lines[member] = lines[at]
          end
          for at = 1, #records, 2 do
            new_lines[records[at]] = records[at + 1]
          end
          keyed.note(members, lines, new_lines)
        end
      end
      for _, body in ipairs(read_fields(prefix .. 'bodies', taken)) do
        bodies[#bodies + 1] = body
      end
      wanted = wanted - #taken
    end
    if wanted <= 0 or is_answer_full then
      break
    end
  end
  claimed_before = claimed_before or count
  local some, due = 0, 0
  if keyed then
    some, due = keyed.turn(is_answer_full and 0 or wanted)
  end
  through, through_and_due = through + some, through_and_due + due
until due == 0 or wanted <= 0 or is_answer_full
through, through_and_due = through - (count - claimed_before), through_and_due - (count - claimed_before)

if count > 0 and not is_dry then
  index_due('claims', expires)
  settle_changed()
end

-- Returns whether a job of the requested priorities is due.
local function is_any_due()
  for priority = 1, levels do
    if redis.call('ZCOUNT', prefix .. 'p' .. priority, '-inf', NOW) > 0 then
      return true
    end
  end
  return false
end

local is_full, next_due = wanted <= 0 or is_answer_full, ''
local has_more = through_and_due > 0 -- perhaps of a priority that was not requested
  or is_full and (is_limited or is_dry or is_more or is_answer_full or is_any_due())
if not has_more and ARGV[8] == '1' then
  local earliest
  for priority = 1, levels do
    local first = redis.call('ZRANGEBYSCORE', prefix .. 'p' .. priority, '(' .. NOW, '+inf', 'LIMIT', 0, 1)[1]
    if first then
      local due = string.match(redis.call('HGET', JOBS, first) or '', '^%d %d+ %-?%d+ %-?%d+ %-?%d+ (%-?%d+)')
      if due and (not earliest or tonumber(due) < tonumber(earliest)) then
        earliest = due
      end
    end
  end
  next_due = earliest or ''
end

local function column(values)
  return '[' .. table.concat(values, ',') .. ']'
end
local columns = column({
  column(ids), column(priorities), column(alloweds), column(remainings), column(createds), column(run_afters)
})
local is_held = is_full and is_limited
return {has_more and not is_held and '1' or '', is_held and '1' or '', next_due, columns, bodies, through}
