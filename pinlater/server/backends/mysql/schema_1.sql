-- Version 1 of a shard, in a database of its own. One row is one job; all times are epoch milliseconds.
-- DDL is not transactional, so every statement is repeatable: an upgrade that a crash interrupted is completed.

CREATE TABLE IF NOT EXISTS {db}.settings (
    name VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {db}.queues (
    id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,  -- NULL: deleted, the monitor deletes its jobs
    created_at BIGINT NOT NULL,
    is_paused TINYINT NOT NULL DEFAULT 0,
    jobs_per_second DOUBLE NULL,  -- NULL: no limit
    max_running BIGINT NULL,  -- NULL: no limit
    UNIQUE KEY queues_by_name (name)
) ENGINE = InnoDB;

-- MySQL has no partial indexes, so one index has all states. It covers filter and order of claims, counts, scans and
-- retries; the primary key is its last part. `moment` is when a claim expires (IN_PROGRESS) or when a job finished
-- (SUCCEEDED, FAILED), for the monitor; PENDING jobs have none.
-- Text that is compared has a binary type, since MySQL takes 'a' and 'a ' for equal.
CREATE TABLE IF NOT EXISTS {db}.jobs (
    id BIGINT NOT NULL PRIMARY KEY,
    queue_id INT NOT NULL,
    state TINYINT NOT NULL,
    priority TINYINT NOT NULL,
    run_after BIGINT NOT NULL,
    moment BIGINT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    claim_lease BIGINT NULL,
    attempts_allowed INT NOT NULL,
    attempts_remaining INT NOT NULL,
    body_bytes INT NOT NULL,
    unique_key VARBINARY(800) NULL,  -- NULL: none, or finished
    claim MEDIUMBLOB NULL,
    custom_status TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    body LONGBLOB NOT NULL,
    KEY jobs_in_order (queue_id, state, priority, run_after),
    KEY jobs_by_moment (state, moment),
    UNIQUE KEY jobs_by_key (queue_id, unique_key)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Servers reserve blocks of job ids: all below `next_job_id` are reserved. Ids left over when a server stops are never
-- used.
INSERT INTO {db}.settings (name, value) VALUES ('next_job_id', 1), ('schema_version', 1)
ON DUPLICATE KEY UPDATE value = value;
