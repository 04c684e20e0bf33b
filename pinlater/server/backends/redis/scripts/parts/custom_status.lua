-- Custom statuses: stored separately from the record, since most jobs have none, and cut after 5000 characters of
-- UTF-8. A job that begins anew with all its attempts keeps fewer, to leave room for these; a text cut for that ends
-- its line.
local MOST_CHARACTERS = 5000
local KEPT_CHARACTERS = 1600

local function truncate(text, most)
  if #text <= most then
    return text
  end
  local at = 0
  for _ = 1, most + 1 do
    at = string.find(text, '[^\128-\191]', at + 1)
    if not at then
      return text
    end
  end
  return string.sub(text, 1, at - 1)
end

local function extend_status(member, before, after)
  local old = redis.call('HGET', prefix .. 'status', member) or ''
  redis.call('HSET', prefix .. 'status', member, truncate(before .. old .. after, MOST_CHARACTERS))
end

local function begin_status(member, before)
  local old = redis.call('HGET', prefix .. 'status', member)
  if old or before ~= '' then
    local text = before .. (old or '')
    if truncate(text, KEPT_CHARACTERS) ~= text then
      text = truncate(text, KEPT_CHARACTERS - 2) .. '…\n'
    end
    redis.call('HSET', prefix .. 'status', member, text)
  end
end
