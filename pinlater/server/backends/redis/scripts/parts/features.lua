-- The features that jobs of the queue use: whether any has a unique key, whether any has a shared key, and whether any
-- has links or a parent or gets some from this script, whose last argument is "links" then. EXISTS counts a key as often
-- as it is named, so one command answers all three.
local LINKS, SHARED, FAMILIES = prefix .. 'links', prefix .. 'job_keys', prefix .. 'families'
local USED = redis.call('EXISTS', prefix .. 'keys', SHARED, SHARED, LINKS, LINKS, LINKS, LINKS,
  FAMILIES, FAMILIES, FAMILIES, FAMILIES)
local HAS_KEYS, HAS_SHARED_KEYS = USED % 2 > 0, USED % 4 > 1
local HAS_LINKS = USED > 3 or ARGV[#ARGV] == 'links'
local HAS_FAILURES = true
