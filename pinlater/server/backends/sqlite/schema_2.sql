-- Version 2: unique keys of jobs that are not finished.

ALTER TABLE jobs ADD COLUMN unique_key TEXT;  -- NULL: none, or finished

CREATE UNIQUE INDEX jobs_unique ON jobs (queue_id, unique_key) WHERE unique_key IS NOT NULL;
