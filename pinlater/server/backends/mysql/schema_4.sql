-- Version 4: unique keys that stay taken for a time, whatever becomes of their jobs.

-- The job may be gone.
CREATE TABLE IF NOT EXISTS {db}.unique_periods (
    queue_id INT NOT NULL,
    unique_key VARBINARY(800) NOT NULL,
    priority TINYINT NOT NULL,
    job_id BIGINT NOT NULL,
    ends_at BIGINT NOT NULL,
    PRIMARY KEY (queue_id, unique_key),
    KEY unique_periods_ending (ends_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

UPDATE {db}.settings SET value = 4 WHERE name = 'schema_version' AND value < 4;
