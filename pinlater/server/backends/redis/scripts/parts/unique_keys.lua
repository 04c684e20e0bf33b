-- Unique keys: the hash "unique" maps a key to the priority and member of its job; "keys" maps a member to its key. A
-- key that stays taken for a time also has a string, which Redis expires: when that is over, priority and member.

-- Returns whether a job has this key, if it is not imported also one that has finished and for which it stays taken; if so, appends its index, priority and member to the answer. A job that
-- was ever claimed has a lease in its record; if the rule of the new job says so, it gives up its key.
local function is_duplicate(key, number, answer, rule, is_imported)
  if not key then
    return false
  end
  local holder = redis.call('HGET', prefix .. 'unique', key)
  local ends, beginner = string.match(redis.call('GET', prefix .. 'period:' .. key) or '', '^(%d+) (.*)$')
  local has_period = ends and tonumber(ends) > now and not is_imported
  holder = holder or has_period and beginner
  if not holder then
    return false
  end
  local priority, member = string.match(holder, '^(%d+) (.*)$')
  if rule and rule[1] and not has_period then
    local lease = select(8, string.match(redis.call('HGET', JOBS, member) or '', RECORD))
    if lease and lease ~= '0' then
      redis.call('HDEL', prefix .. 'keys', member)
      return false
    end
  end
  answer[#answer + 1] = number - 1
  answer[#answer + 1] = priority
  answer[#answer + 1] = member
  return true, member
end

local function store_key(key, priority, member, rule)
  if key then
    if rule and rule[2] > 0 then
      local value = string.format('%d %s %s', now + rule[2], priority, member)
      redis.call('SET', prefix .. 'period:' .. key, value, 'PX', rule[2])
    end
    redis.call('HSET', prefix .. 'unique', key, priority .. ' ' .. member)
    redis.call('HSET', prefix .. 'keys', member, key)
  end
end
