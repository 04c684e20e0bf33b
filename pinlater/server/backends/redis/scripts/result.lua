-- What a call has answered. ARGV[2] its idempotency key.
-- Returns the answer as it is kept: of an enqueue or import a list, of others a number; or nothing.
-- with results
return recall(ARGV[2])
