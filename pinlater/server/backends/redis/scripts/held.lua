-- Part of a walk over claimed jobs. ARGV[2] cursor, "0" to begin; [3] how many to look at; [4] priority of those wanted.
-- Returns {now, members, records, statuses, unique keys, cursor to go on from, "0" at the end}.
-- with records
local step = redis.call('ZSCAN', CLAIMS, ARGV[2], 'COUNT', ARGV[3])
local all_members, members, lines = {}, {}, {}
for at = 1, #step[2], 2 do
  all_members[#all_members + 1] = step[2][at]
end
for at, line in ipairs(read(JOBS, all_members)) do
  if line and string.match(line, '^%d (%d+)') == ARGV[4] then
    members[#members + 1] = all_members[at]
    lines[#lines + 1] = line
  end
end
return {NOW, members, lines, read(prefix .. 'status', members), read(prefix .. 'keys', members), step[1]}
