-- Most arguments per command: well below the number of values that Lua can unpack at once (8000).
local MOST_ARGUMENTS = 2000

-- Runs a command on any number of arguments, in several steps if necessary.
local function call_in_chunks(command, key, arguments)
  if #arguments <= MOST_ARGUMENTS then
    if #arguments > 0 then
      redis.call(command, key, unpack(arguments))
    end
    return
  end
  for from = 1, #arguments, MOST_ARGUMENTS do
    redis.call(command, key, unpack(arguments, from, math.min(from + MOST_ARGUMENTS - 1, #arguments)))
  end
end

-- Returns the values of any number of fields of a hash; false for a field that does not exist.
local function read_fields(key, fields)
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
