-- Version 1 of the store. One row is one job; partial indexes are its states.

CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- All job ids below `next_job_id` may have been given out. It runs ahead of the truth by a block, so that
-- it is not written for every job; what is left of the block after a restart is never used.
INSERT INTO settings (name, value) VALUES ('next_job_id', 1);

CREATE TABLE queues (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT UNIQUE,                         -- NULL: deleted, its jobs are being removed
    created_at INTEGER NOT NULL
);

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    queue_id INTEGER NOT NULL,
    state INTEGER NOT NULL,                   -- PinLaterJobState
    priority INTEGER NOT NULL,
    run_after INTEGER NOT NULL,               -- all times: epoch milliseconds
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,              -- of a finished job: when it finished
    attempts_allowed INTEGER NOT NULL,
    attempts_remaining INTEGER NOT NULL,
    claim_expires INTEGER,                    -- only while IN_PROGRESS
    claim_lease INTEGER,
    claim TEXT,
    custom_status TEXT NOT NULL DEFAULT '',
    body BLOB NOT NULL
);

-- Claims in order; counts and scans of what waits.
CREATE INDEX jobs_pending ON jobs (queue_id, priority, run_after) WHERE state = 0;

-- The monitor takes from the left; few enough (what workers hold now) to be counted by a walk.
CREATE INDEX jobs_claimed ON jobs (claim_expires, queue_id, priority, run_after) WHERE state = 1;

-- Counts, scans, retries and deletions of what is over.
CREATE INDEX jobs_finished ON jobs (queue_id, state, priority, run_after) WHERE state >= 2;

-- Collection of what has been over for long enough.
CREATE INDEX jobs_settled ON jobs (state, updated_at) WHERE state >= 2;
