-- Reads job bodies. ARGV[2]: MessagePack, a list of ids.
-- Returns the bodies in the order of the ids; false for a job that does not exist.
-- parts: records
local members = {}
for at, id in ipairs(cmsgpack.unpack(ARGV[2])) do
  members[at] = member_of(id)
end
return read_fields(prefix .. 'bodies', members)
