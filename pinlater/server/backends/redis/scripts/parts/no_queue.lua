-- For a script about no queue that sends messages to jobs.
local prefix, JOBS = '', ''
local HAS_KEYS, HAS_SHARED_KEYS, HAS_LINKS, HAS_FAILURES = false, false, true, true
