-- Reads the stored result of a call. ARGV[2] its idempotency key.
-- Returns a list for enqueue and import, a number for other calls, or nil.
-- parts: call_results
return find_result(ARGV[2])
