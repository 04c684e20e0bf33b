-- Reads messages of a job. ARGV[2] its priority, [3] its id; [4] name of the messages; [5] number after which to begin;
-- [6] most messages; [7] most bytes, [8] bytes per message in addition. The first need not fit; the last ones may be too
-- many.
-- Returns {number of the first, a list of them in the order of their numbers}: each a text, as stored in the inbox; or a
-- list of one text, for several messages, of which some may come before the first: see inboxes.lua and successes.lua.
-- parts: records successes
local member, after, left = member_of(tonumber(ARGV[3])), tonumber(ARGV[5]), tonumber(ARGV[7])
local name, inbox, together = ARGV[4], prefix .. 'inbox:' .. member, prefix .. 'successes:' .. member
local found, head = {}, 'm' .. name .. '\0'
local PAGE = 100  -- read page by page, since each message may be large
if string.match(redis.call('HGET', JOBS, member) or '', '^%d (%d+)') ~= ARGV[2] then
  return {after + 1, found}
end
local count, dropped = unpack(redis.call('HMGET', inbox, 'n' .. name, 'd' .. name))
after = math.max(after, tonumber(dropped or 0))
local last = math.min(tonumber(count or 0), after + ARGV[6])
local number = after + 1
while number <= last and left > 0 do
  local some, first, last_of_some = find_successes(together, name, number)
  local end_of_singles = math.min((first or last + 1) - 1, last)
  while number <= end_of_singles and left > 0 do
    local fields = {}
    for single = number, math.min(number + PAGE - 1, end_of_singles) do
      fields[#fields + 1] = head .. string.format('%d', single)
    end
    for place, message in ipairs(redis.call('HMGET', inbox, unpack(fields))) do
      if not message then
        local gone = string.format("message %d of %s is gone", number + place - 1, name)
        return redis.error_reply('LOST ' .. gone .. '; was a key of Redis deleted, or evicted (maxmemory-policy)?')
      end
      left = left - #message - ARGV[8]
      if left < 0 and #found > 0 then
        return {after + 1, found}
      end
      found[#found + 1] = message
    end
    number = number + #fields
  end
  if some and number <= last and left > 0 then
    left = left - #some - ARGV[8] * (last_of_some - number + 1)
    found[#found + 1] = {some}
    number = last_of_some + 1
  end
end
return {after + 1, found}
