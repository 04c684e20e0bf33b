-- Custom statuses: stored apart from the record, since most jobs have none, and cut after 5000 characters of UTF-8.
local MOST_CHARACTERS = 5000

local function truncate(text)
  if #text <= MOST_CHARACTERS then
    return text
  end
  local at = 0
  for _ = 1, MOST_CHARACTERS + 1 do
    at = string.find(text, '[^\128-\191]', at + 1)
    if not at then
      return text
    end
  end
  return string.sub(text, 1, at - 1)
end

local function extend_status(member, before, after)
  local old = redis.call('HGET', prefix .. 'status', member) or ''
  redis.call('HSET', prefix .. 'status', member, truncate(before .. old .. after))
end
