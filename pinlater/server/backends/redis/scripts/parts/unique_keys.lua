-- Unique keys: the hash "unique" maps a key to the priority and member of its job; "keys" maps a member to its key.

-- Returns whether an unfinished job has this key; if so, appends its index, priority and member to the answer. A job that
-- was ever claimed has a lease in its record; if the rule of the new job says so, it gives up its key.
local function is_duplicate(key, number, answer, rule)
  local holder = key and redis.call('HGET', prefix .. 'unique', key)
  if not holder then
    return false
  end
  local priority, member = string.match(holder, '^(%d+) (.*)$')
  if rule and rule[1] then
    local lease = select(8, string.match(redis.call('HGET', JOBS, member) or '', RECORD))
    if lease and lease ~= '0' then
      redis.call('HDEL', prefix .. 'keys', member)
      return false
    end
  end
  answer[#answer + 1] = number - 1
  answer[#answer + 1] = priority
  answer[#answer + 1] = member
  return true
end

local function store_key(key, priority, member)
  if key then
    redis.call('HSET', prefix .. 'unique', key, priority .. ' ' .. member)
    redis.call('HSET', prefix .. 'keys', member, key)
  end
end
