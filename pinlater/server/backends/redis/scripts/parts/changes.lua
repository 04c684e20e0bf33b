-- Changes of jobs are gathered and then carried out with few commands. A job may leave "claims" in a script that has
-- renewed it, but never comes back in the same script: so additions go first, removals last.
local records, entering, leaving, finished = {}, {}, {}, {}

local function put(member, line)
  records[#records + 1] = member
  records[#records + 1] = line
end

local function enter(key, score, member)
  local list = entering[key]
  if not list then
    list = {}
    entering[key] = list
  end
  list[#list + 1] = score
  list[#list + 1] = member
end

-- Claimed -> succeeded ("s", "S") or failed ("f", "F"): in order of run_after for people, of the finish for collection.
local function finish(kind, priority, run_after, member)
  enter(prefix .. kind .. priority, run_after, member)
  enter(prefix .. string.upper(kind), NOW, member)
  finished[#finished + 1] = member
end

-- Jobs that are over have no unique key any more.
local function forget_keys(members)
  if #members == 0 or redis.call('EXISTS', prefix .. 'keys') == 0 then
    return
  end
  local keys = {}
  for _, key in ipairs(read(prefix .. 'keys', members)) do
    if key then
      keys[#keys + 1] = key
    end
  end
  all('HDEL', prefix .. 'unique', keys)
  all('HDEL', prefix .. 'keys', members)
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

local function carry_out()
  all('HSET', JOBS, records)
  for key, list in pairs(entering) do
    all('ZADD', key, list)
  end
  for _, kind in ipairs(KINDS_OF_UPKEEP) do
    local list = entering[prefix .. kind]
    if list then
      expect(kind, least_score(list))
    end
  end
  all('ZREM', CLAIMS, leaving)
  forget_keys(finished)
end

-- Ends one attempt of a claimed job: FAILED when it was the last, otherwise PENDING at the given time.
-- Returns the job's new record, and whether it failed.
local function spend(member, is_final, retry_at, priority, allowed, remaining, created, run_after, lease, bytes, claim)
  remaining = tonumber(remaining)
  local line
  local is_last = is_final or remaining <= 1
  if is_last then
    line = record(FAILED, priority, allowed, 0, created, run_after, NOW, lease, bytes, claim)
    finish('f', priority, run_after, member)
  else
    line = record(PENDING, priority, allowed, remaining - 1, created, retry_at, NOW, lease, bytes, '')
    enter(prefix .. 'p' .. priority, retry_at, member)
  end
  leaving[#leaving + 1] = member
  put(member, line)
  return line, is_last
end
