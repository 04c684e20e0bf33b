-- For scripts about jobs that have failed, or may have failed.
local HAS_FAILURES = true
