-- Reads one page of the claimed jobs of a priority. ARGV[2] cursor, "0" to start; [3] number of claims to read; [4]
-- priority.
-- Returns {now, members, records, statuses, unique keys, shared keys, links, failure groups, cursor of the next page or
-- "0" at the end}.
-- parts: records shared_keys any_links families read_links
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
return {
  NOW, members, lines, read_fields(prefix .. 'status', members), read_fields(prefix .. 'keys', members),
  read_shared_keys(members), read_links(members),
  read_fields(prefix .. 'failing', members), step[1]
}
