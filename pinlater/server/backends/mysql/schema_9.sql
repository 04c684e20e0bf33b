-- Version 9: failure groups.

-- failure_group: of a job whose last attempt failed; NULL: it did not, or was retried by hand.
ALTER TABLE {db}.jobs ADD COLUMN (failure_group BIGINT NULL);

-- The PENDING and FAILED jobs with a group once more. An index of all jobs would cost those that never failed, too, since
-- NULL has entries in it.
CREATE TABLE IF NOT EXISTS {db}.failing_jobs (
    id BIGINT NOT NULL PRIMARY KEY,
    queue_id INT NOT NULL,
    failure_group BIGINT NOT NULL,
    state TINYINT NOT NULL,
    priority TINYINT NOT NULL,
    run_after BIGINT NOT NULL,
    KEY failing_by_group (queue_id, failure_group, state, run_after),
    KEY failing_in_order (queue_id, state, priority, run_after)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What the failures of a group have in common. job: their class; empty: not known. look_at: when to see whether it is empty.
CREATE TABLE IF NOT EXISTS {db}.failure_groups (
    queue_id INT NOT NULL,
    id BIGINT NOT NULL,
    job VARBINARY(800) NOT NULL,
    error VARBINARY(1000) NOT NULL,
    example VARBINARY(1000) NOT NULL,
    first_failed_at BIGINT NOT NULL,
    last_failed_at BIGINT NOT NULL,
    look_at BIGINT NOT NULL,
    PRIMARY KEY (queue_id, id),
    KEY failure_groups_to_look_at (look_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

UPDATE {db}.settings SET value = 9 WHERE name = 'schema_version' AND value < 9;
