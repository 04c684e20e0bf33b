-- What is known of jobs. ARGV[2]: MessagePack, a list of ids; [3] "1": with bodies.
-- Returns {records, statuses, unique keys, bodies}, in the order of the ids; false for what is not there.
-- with records
local members = {}
for at, id in ipairs(cmsgpack.unpack(ARGV[2])) do
  members[at] = member_of(id)
end
return {
  read(JOBS, members), read(prefix .. 'status', members), read(prefix .. 'keys', members),
  ARGV[3] == '1' and read(prefix .. 'bodies', members)
}
