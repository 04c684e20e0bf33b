-- Reads one page of the claimed jobs of a priority. ARGV[2] cursor, "0" to start; [3] number of claims to read; [4]
-- priority.
-- Returns {now, cursor of the next page or "0" at the end, members, records, statuses, unique keys, shared keys, links,
-- failure groups}.
-- parts: records any_links families job_columns
local step = redis.call('ZSCAN', CLAIMS, ARGV[2], 'COUNT', ARGV[3])
local all_members, members, lines = {}, {}, {}
for at = 1, #step[2], 2 do
  all_members[#all_members + 1] = step[2][at]
end
for at, line in ipairs(read_fields(JOBS, all_members)) do
  if line and string.match(line, '^%d (%d+)') == ARGV[4] then
    members[#members + 1] = all_members[at]
    lines[#lines + 1] = line
  end
end
return {NOW, step[1], members, read_jobs(members, lines)}
