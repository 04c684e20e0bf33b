-- Reads messages of a job. ARGV[2] its priority, [3] its id; [4] name of the messages; [5] number after which to begin;
-- [6] most messages; [7] most bytes, [8] bytes per message in addition; [9] "1": the first need not fit.
-- Returns {number of the first, a list of them in the order of their numbers, each as stored: see inboxes.lua}.
-- parts: records
local member, after, left = member_of(tonumber(ARGV[3])), tonumber(ARGV[5]), tonumber(ARGV[7])
local inbox, head, found = prefix .. 'inbox:' .. member, 'm' .. ARGV[4] .. '\0', {}
local PAGE = 100  -- read page by page, since each message may be large
if string.match(redis.call('HGET', JOBS, member) or '', '^%d (%d+)') ~= ARGV[2] then
  return {after + 1, found}
end
local count, dropped = unpack(redis.call('HMGET', inbox, 'n' .. ARGV[4], 'd' .. ARGV[4]))
after = math.max(after, tonumber(dropped or 0))
local last = math.min(tonumber(count or 0), after + ARGV[6])
for first = after + 1, last, PAGE do
  local fields = {}
  for number = first, math.min(first + PAGE - 1, last) do
    fields[#fields + 1] = head .. string.format('%d', number)
  end
  for _, message in ipairs(redis.call('HMGET', inbox, unpack(fields))) do
    left = left - #message - ARGV[8]
    if left < 0 and (#found > 0 or ARGV[9] == '') then
      return {after + 1, found}
    end
    found[#found + 1] = message
  end
end
return {after + 1, found}
