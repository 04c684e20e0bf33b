-- Messages of children of this shard that succeeded in one script, stored together: for a job that has some, the key
-- "successes:" and its member is a sorted set by text. Each member of it is: name of the messages, NUL, 16 digits for the
-- number of the last message, NUL, number of the first, NUL, ids, NUL, sizes of the payloads in bytes, NUL, payloads. Ids
-- and sizes are joined by commas.
-- Returns the first of them with a message whose number is at least "number", from its first number on; then that
-- number and the last one. Nothing if there is none.
local function find_successes(key, name, number)
  local head = name .. '\0'
  local from, to = '[' .. head .. string.format('%016d', number), '[' .. head .. '\255'
  local found = redis.call('ZRANGEBYLEX', key, from, to, 'LIMIT', 0, 1)[1]
  local last, first = string.match(found or '', '^(%d+)%z(%d+)%z', #head + 1)
  if first then
    return string.sub(found, #head + 18), tonumber(first), tonumber(last)
  end
end
