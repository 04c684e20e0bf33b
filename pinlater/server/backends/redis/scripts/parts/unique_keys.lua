-- Unique keys: the hash "unique" maps a key to the priority and member of its job; "keys" maps a member to its key. A
-- key that stays taken for a period also has a string, which Redis expires: the end of the period, priority and member.

-- Returns whether the key is taken: by a job that has it, or unless the new job is imported, for a period of a job that
-- may have finished. If so, appends the index of the new job, and priority and member of the other one to the answer,
-- and returns that member, too. A job that was ever claimed has a lease in its record; it gives up its key if the rule
-- of the new job says so and no period is left.
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
