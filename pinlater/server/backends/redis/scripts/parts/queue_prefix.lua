-- For scripts about several queues of a shard. KEYS[1] begins with the prefix of all keys of the shard.
local SHARD = string.match(KEYS[1], '^([^}]*)}')

-- Returns the prefix of all keys of a queue's present generation; false if there is no such queue.
local function prefix_of(queue)
  local tag = SHARD .. ':' .. queue .. '}'
  local generation = redis.call('GET', tag)
  return generation and tag .. ':' .. generation .. ':'
end
