-- For scripts about several queues of a shard. KEYS[1] starts with the prefix of all their keys.
local SHARD = string.match(KEYS[1], '^([^}]*)}')

-- Returns what all keys of a queue's present generation begin with; false: there is no such queue.
local function prefix_of(queue)
  local tag = SHARD .. ':' .. queue .. '}'
  local generation = redis.call('GET', tag)
  return generation and tag .. ':' .. generation .. ':'
end
