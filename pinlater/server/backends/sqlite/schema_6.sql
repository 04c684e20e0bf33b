-- Version 6: unique keys that stay taken for a time, whatever becomes of their jobs.

CREATE TABLE unique_periods (
    queue_id INTEGER NOT NULL,
    unique_key TEXT NOT NULL,
    priority INTEGER NOT NULL,
    job_id INTEGER NOT NULL,                  -- the job may be gone
    ends_at INTEGER NOT NULL,
    PRIMARY KEY (queue_id, unique_key)
) WITHOUT ROWID;

CREATE INDEX unique_periods_ending ON unique_periods (ends_at);
