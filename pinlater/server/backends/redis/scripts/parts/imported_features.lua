-- The last argument of the script that imports jobs says whether any of them has a shared key.
local HAS_KEYS, HAS_SHARED_KEYS, HAS_LINKS, HAS_FAILURES = true, ARGV[#ARGV] == 'keyed', false, true
