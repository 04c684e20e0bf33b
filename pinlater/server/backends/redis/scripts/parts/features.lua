-- What the jobs of the queue use: whether any has a key, whether any shares one with others, and whether any has links,
-- or gets some by this script: then its last argument is "links". EXISTS counts a key as often as it is named, so it
-- takes one command for all.
local LINKS, SHARED = prefix .. 'links', prefix .. 'job_keys'
local USED = redis.call('EXISTS', prefix .. 'keys', SHARED, SHARED, LINKS, LINKS, LINKS, LINKS)
local HAS_KEYS, HAS_SHARED_KEYS = USED % 4 > 0, USED % 4 > 1
local HAS_LINKS = USED > 3 or ARGV[#ARGV] == 'links'
local HAS_FAILURES = true
