-- For scripts that are about no particular queue and send messages to jobs.
local prefix, JOBS = '', ''
local HAS_KEYS, HAS_SHARED_KEYS, HAS_LINKS, HAS_FAILURES = false, false, true, true
