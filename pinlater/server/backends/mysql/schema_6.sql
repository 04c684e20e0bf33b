-- Version 6: keys that jobs of a queue share.

-- job_key: NULL: none. key_limit: how many jobs of the key run at once; NULL: no limit; 0: one, in order of enqueues.
-- Both are added at once, or, if they are there, none: the error is passed over. No row is rewritten.
ALTER TABLE {db}.jobs ADD COLUMN (job_key VARBINARY(800) NULL, key_limit INT NULL);

-- The unfinished jobs with keys once more: who waits for a key, who is let through or runs. An index of all jobs would
-- cost those without keys, too, since NULL has entries in it.
CREATE TABLE IF NOT EXISTS {db}.keyed_jobs (
    id BIGINT NOT NULL PRIMARY KEY,
    queue_id INT NOT NULL,
    job_key VARBINARY(800) NOT NULL,
    state TINYINT NOT NULL,
    run_after BIGINT NOT NULL,
    key_limit INT NULL,
    KEY keyed_jobs_in_line (queue_id, job_key, state, run_after)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What transactions lock to decide about keys, see keys.py. It has 256 rows at most.
CREATE TABLE IF NOT EXISTS {db}.key_locks (
    id SMALLINT NOT NULL PRIMARY KEY,
    changes BIGINT NOT NULL
) ENGINE = InnoDB;

UPDATE {db}.settings SET value = 6 WHERE name = 'schema_version' AND value < 6;
