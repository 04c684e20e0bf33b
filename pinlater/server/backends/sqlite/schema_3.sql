-- Version 3: what holds a queue's jobs back.

ALTER TABLE queues ADD COLUMN is_paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN jobs_per_second REAL;  -- NULL: no limit
ALTER TABLE queues ADD COLUMN max_running INTEGER;   -- NULL: no limit
