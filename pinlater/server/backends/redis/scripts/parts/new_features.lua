-- The script that adds jobs is told by its last argument whether keys that they share with others, or links, have to do
-- with it: "keyed", "links" or "keyed links". Only then jobs that were there before, and may have failed, change.
local MARK = ARGV[#ARGV]
local HAS_KEYS, HAS_SHARED_KEYS = true, MARK == 'keyed' or MARK == 'keyed links'
local HAS_LINKS = MARK == 'links' or MARK == 'keyed links'
local HAS_FAILURES = HAS_SHARED_KEYS or HAS_LINKS
