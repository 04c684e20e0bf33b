-- Version 10: failure groups.

ALTER TABLE jobs ADD COLUMN failure_group INTEGER;  -- its last attempt failed; NULL: it did not, or was retried by hand

-- Jobs that never failed cost a comparison with NULL for each index.
CREATE INDEX jobs_retrying ON jobs (queue_id, priority, run_after) WHERE failure_group IS NOT NULL AND state = 0;

CREATE INDEX jobs_by_failure ON jobs (queue_id, failure_group, state, run_after)
WHERE failure_group IS NOT NULL AND state IN (0, 3);

-- What the failures of a group have in common.
CREATE TABLE failure_groups (
    queue_id INTEGER NOT NULL,
    id INTEGER NOT NULL,
    job TEXT NOT NULL,                        -- class; empty: not known
    error TEXT NOT NULL,
    example TEXT NOT NULL,
    first_failed_at INTEGER NOT NULL,
    last_failed_at INTEGER NOT NULL,
    look_at INTEGER NOT NULL,                 -- when to see whether it is empty
    PRIMARY KEY (queue_id, id)
) WITHOUT ROWID;

CREATE INDEX failure_groups_to_look_at ON failure_groups (look_at);
