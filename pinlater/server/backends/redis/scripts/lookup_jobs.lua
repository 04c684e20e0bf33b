-- Reads jobs. ARGV[2]: MessagePack, a list of ids; [3] "1": with bodies.
-- Returns {records, statuses, unique keys, keys, bodies}, in the order of the ids; false for what does not exist.
-- parts: records
local members = {}
for at, id in ipairs(cmsgpack.unpack(ARGV[2])) do
  members[at] = member_of(id)
end
return {
  read_fields(JOBS, members), read_fields(prefix .. 'status', members), read_fields(prefix .. 'keys', members),
  read_fields(prefix .. 'job_keys', members), ARGV[3] == '1' and read_fields(prefix .. 'bodies', members)
}
