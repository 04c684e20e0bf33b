-- The last argument of the script that adds jobs says whether shared keys or links are involved: "keyed", "links" or
-- "keyed links". Only then can it change jobs that existed before, which may have failed.
local MARK = ARGV[#ARGV]
local HAS_KEYS, HAS_SHARED_KEYS = true, MARK == 'keyed' or MARK == 'keyed links'
local HAS_LINKS = MARK == 'links' or MARK == 'keyed links'
local HAS_FAILURES = HAS_SHARED_KEYS or HAS_LINKS
