-- Reads jobs that have a key, shared or unique. ARGV[2] the key; [3] state; [4] run_after and [5] id of the last job of
-- the previous page, empty at the start; [6] limit; [7] "oldest": earliest run_after first, otherwise latest first.
-- PENDING jobs that share the key come in order, up to the limit; claimed ones come in any order, always from the
-- first, up to the limit. The job that has it as its unique key is added each time, whatever its state.
-- Returns {members, records, statuses, unique keys, shared keys, links, failure groups}.
-- parts: records any_links families job_columns
local text, is_oldest, members, seen = ARGV[2], ARGV[7] == 'oldest', {}, {}
local is_pending = ARGV[3] == PENDING
local head = text .. '\0' .. (is_pending and 'p' or 'c')
local low, high = '[' .. head, '(' .. text .. '\0' .. (is_pending and 'q' or 'd')
if is_pending and ARGV[4] ~= '' then
  local last = '(' .. head .. string.format('%016d', ARGV[4]) .. member_of(ARGV[5])
  if is_oldest then
    low = last
  else
    high = last
  end
end
local entries
if is_oldest then
  entries = redis.call('ZRANGEBYLEX', prefix .. 'turns', low, high, 'LIMIT', 0, ARGV[6])
else
  entries = redis.call('ZREVRANGEBYLEX', prefix .. 'turns', high, low, 'LIMIT', 0, ARGV[6])
end
for at, entry in ipairs(entries) do
  members[at] = string.sub(entry, #text + (is_pending and 19 or 3))
  seen[members[at]] = true
end
local unique = string.match(redis.call('HGET', prefix .. 'unique', text) or '', '^%d+ (.*)$')
if unique and not seen[unique] then
  members[#members + 1] = unique
end
return {members, read_jobs(members)}
