-- The script that imports jobs is told by its last argument whether they share keys.
local HAS_KEYS, HAS_SHARED_KEYS, HAS_LINKS, HAS_FAILURES = true, ARGV[#ARGV] == 'keyed', false, true
