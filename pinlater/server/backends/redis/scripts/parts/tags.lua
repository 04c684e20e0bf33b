-- For scripts about several queues of a shard. KEYS[1] begins with what the keys of all of them begin with.
local SHARD = string.match(KEYS[1], '^([^}]*)}')

-- Returns what all keys of a queue's present life begin with; false: there is no such queue.
local function prefix_of(queue)
  local tag = SHARD .. ':' .. queue .. '}'
  local life = redis.call('GET', tag)
  return life and tag .. ':' .. life .. ':'
end
