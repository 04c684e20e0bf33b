-- A script that adds jobs is told by a last argument "keyed" that keys which they share with others have to do with it.
local HAS_KEYS, HAS_SHARED_KEYS = true, ARGV[#ARGV] == 'keyed'
