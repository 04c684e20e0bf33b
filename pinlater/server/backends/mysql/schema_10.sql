-- Version 10: rates of keys.

-- key_rate: rate that the job was enqueued with; NULL: none. No row is rewritten.
ALTER TABLE {db}.jobs ADD COLUMN (key_rate VARBINARY(16) NULL);

-- The newest rate of each key that has one, and when its next job would be started at an even pace, in epoch
-- microseconds. Its rows are changed under the lock of their keys alone.
CREATE TABLE IF NOT EXISTS {db}.key_rates (
    queue_id INT NOT NULL,
    job_key VARBINARY(800) NOT NULL,
    rate VARBINARY(16) NOT NULL,
    next_us BIGINT NOT NULL,
    PRIMARY KEY (queue_id, job_key),
    KEY key_rates_in_order (next_us)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

UPDATE {db}.settings SET value = 10 WHERE name = 'schema_version' AND value < 10;
