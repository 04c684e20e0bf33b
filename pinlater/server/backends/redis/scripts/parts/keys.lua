-- Unique keys: "unique" says which job has a key, as its priority and member; "keys" says which key a job has.

-- Whether a job with this key is there; then its place is added to the answer.
local function is_there(key, number, answer)
  local holder = key and redis.call('HGET', prefix .. 'unique', key)
  if not holder then
    return false
  end
  local priority, member = string.match(holder, '^(%d+) (.*)$')
  answer[#answer + 1] = number - 1
  answer[#answer + 1] = priority
  answer[#answer + 1] = member
  return true
end

local function keep_key(key, priority, member)
  if key then
    redis.call('HSET', prefix .. 'unique', key, priority .. ' ' .. member)
    redis.call('HSET', prefix .. 'keys', member, key)
  end
end
