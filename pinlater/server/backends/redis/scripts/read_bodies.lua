-- Reads job bodies. ARGV[2]: MessagePack, a list of ids.
-- Returns the bodies in the order of the ids; false for a job that does not exist.
-- parts: records members
return read_fields(prefix .. 'bodies', members_of(cmsgpack.unpack(ARGV[2])))
