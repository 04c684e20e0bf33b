-- For scripts about jobs that have failed, or may have.
local HAS_FAILURES = true
