-- Part of a walk over claimed jobs. ARGV[2] cursor, "0" to begin; [3] how many to look at.
-- Returns {now, members, records, statuses, unique keys, cursor to go on from, "0" at the end}.
local step = redis.call('ZSCAN', CLAIMS, ARGV[2], 'COUNT', ARGV[3])
local members = {}
for at = 1, #step[2], 2 do
  members[#members + 1] = step[2][at]
end
return {
  NOW, members, read(JOBS, members), read(prefix .. 'status', members), read(prefix .. 'keys', members), step[1]
}
