-- Bodies of jobs. ARGV[2]: MessagePack, a list of ids. Returns them in that order; false for those not there.
-- with records
local members = {}
for at, id in ipairs(cmsgpack.unpack(ARGV[2])) do
  members[at] = member_of(id)
end
return read(prefix .. 'bodies', members)
