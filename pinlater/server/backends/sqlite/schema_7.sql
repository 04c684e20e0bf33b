-- Version 7: keys that jobs of a queue share.

ALTER TABLE jobs ADD COLUMN job_key TEXT;         -- NULL: none
ALTER TABLE jobs ADD COLUMN key_limit INTEGER;    -- how many run at once; NULL: no limit; 0: one, in order of enqueues

-- Who waits for a key, and who is let through. `run_after` of those that wait is larger than that of all others.
CREATE INDEX jobs_keyed ON jobs (queue_id, job_key, state, run_after) WHERE job_key IS NOT NULL AND state <= 1;

ALTER TABLE queues ADD COLUMN has_keys INTEGER NOT NULL DEFAULT 0;  -- whether a job ever had a key
