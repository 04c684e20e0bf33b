-- Begins every script about a queue. KEYS[1] is the queue: a string with the number of its present life. All else of
-- the queue has keys that start with KEYS[1].
local life = redis.call('GET', KEYS[1])
if not life then
  return {err = 'NOQUEUE there is no such queue'}
end
local prefix = KEYS[1] .. ':' .. life .. ':'
local JOBS, CLAIMS = prefix .. 'jobs', prefix .. 'claims'

-- Arguments of one command: well below what Lua can unpack at once (8000).
local MOST_ARGUMENTS = 2000

-- Runs a command on as many arguments as there are.
local function all(command, key, arguments)
  for from = 1, #arguments, MOST_ARGUMENTS do
    redis.call(command, key, unpack(arguments, from, math.min(from + MOST_ARGUMENTS - 1, #arguments)))
  end
end

-- Reads fields of a hash, as many as there are; false for those not there.
local function read(key, fields)
  if #fields <= MOST_ARGUMENTS then
    return #fields > 0 and redis.call('HMGET', key, unpack(fields)) or {}
  end
  local values = {}
  for from = 1, #fields, MOST_ARGUMENTS do
    for _, value in ipairs(redis.call('HMGET', key, unpack(fields, from, math.min(from + MOST_ARGUMENTS - 1, #fields)))) do
      values[#values + 1] = value
    end
  end
  return values
end
