-- Version 11: rates of keys.

ALTER TABLE jobs ADD COLUMN key_rate TEXT;            -- rate that the job was enqueued with; NULL: none

-- The newest rate of each key that has one, and when its next job would be started at an even pace.
CREATE TABLE key_rates (
    queue_id INTEGER NOT NULL,
    job_key TEXT NOT NULL,
    rate TEXT NOT NULL,
    next_us INTEGER NOT NULL,                         -- epoch microseconds
    PRIMARY KEY (queue_id, job_key)
) WITHOUT ROWID;

CREATE INDEX key_rates_in_order ON key_rates (next_us);
