-- Collects changes of jobs and applies them with few commands. A job may leave "claims" in a script that has renewed
-- its claim, but never enters it again in the same script, so additions come first and removals last.
local records, entering, leaving, finished = {}, {}, {}, {}

local function write_record(member, line)
  records[#records + 1] = member
  records[#records + 1] = line
end

local function add_member(key, score, member)
  local list = entering[key]
  if not list then
    list = {}
    entering[key] = list
  end
  list[#list + 1] = score
  list[#list + 1] = member
end

-- Adds a job to the sets of succeeded ("s", "S") or failed ("f", "F") jobs: by run_after for scans, by the time at
-- which it finished for collection.
local function finish(kind, priority, run_after, member)
  add_member(prefix .. kind .. priority, run_after, member)
  add_member(prefix .. string.upper(kind), NOW, member)
  finished[#finished + 1] = member
end

-- Returns the unique keys that jobs have.
local function unique_keys_of(members)
  local keys = {}
  for _, key in ipairs(HAS_KEYS and #members > 0 and read_fields(prefix .. 'keys', members) or {}) do
    keys[#keys + 1] = key or nil
  end
  return keys
end

-- Jobs that are deleted or cancelled before they finish end the periods for which their unique keys would stay taken.
local function end_periods(members)
  for _, key in ipairs(unique_keys_of(members)) do
    redis.call('DEL', prefix .. 'period:' .. key)
  end
end

-- Finished and deleted jobs give up their unique keys.
local function delete_unique_keys(members)
  local keys = unique_keys_of(members)
  if #keys > 0 then
    call_in_chunks('HDEL', prefix .. 'unique', keys)
    call_in_chunks('HDEL', prefix .. 'keys', members)
  end
end

local function least_score(list)
  local least = list[1]
  for at = 3, #list, 2 do
    if list[at] ~= least and tonumber(list[at]) < tonumber(least) then
      least = list[at]
    end
  end
  return least
end

local function apply_changes()
  call_in_chunks('HSET', JOBS, records)
  for key, list in pairs(entering) do
    call_in_chunks('ZADD', key, list)
  end
  for _, kind in ipairs(DUE_KINDS) do
    local list = entering[prefix .. kind]
    if list then
      index_due(kind, least_score(list))
    end
  end
  call_in_chunks('ZREM', CLAIMS, leaving)
  delete_unique_keys(finished)
end

-- Applies the changes, then lets other jobs of the keys through; for the arguments, see keyed.note. Returns how many.
local function apply_and_turn(members, befores, lines)
  apply_changes()
  local through = keyed and keyed.note_and_turn(members, befores, lines) or 0 -- may move jobs within their failure groups
  settle_changed()
  return through
end

-- PENDING or IN_PROGRESS -> FAILED, with as many attempts left as given. Returns the job's new record.
local function end_job(member, priority, allowed, remaining, created, run_after, lease, bytes, claim)
  local line = record(FAILED, priority, allowed, remaining, created, run_after, NOW, lease, bytes, claim)
  finish('f', priority, run_after, member)
  leaving[#leaving + 1] = member
  write_record(member, line)
  return line
end

-- IN_PROGRESS -> FAILED if it was the last attempt or is_final, otherwise PENDING at retry_at with one attempt less.
-- Returns the job's new record, and whether it is FAILED.
local function end_attempt(member, is_final, retry_at, priority, allowed, remaining, created, run_after, lease, bytes, claim)
  remaining = tonumber(remaining)
  if is_final or remaining <= 1 then
    return end_job(member, priority, allowed, 0, created, run_after, lease, bytes, claim), true
  end
  local line = record(PENDING, priority, allowed, remaining - 1, created, retry_at, NOW, lease, bytes, '')
  add_member(prefix .. 'p' .. priority, retry_at, member)
  leaving[#leaving + 1] = member
  write_record(member, line)
  return line, false
end
