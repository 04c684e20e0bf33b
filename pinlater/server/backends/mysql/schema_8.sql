-- Version 8: statistics, and how long a succeeded job ran.

-- run_ms: of the last attempt of a SUCCEEDED job; NULL: short, or not told. No row is rewritten.
ALTER TABLE {db}.jobs ADD COLUMN (
    run_ms BIGINT NULL
);

-- What happened in a minute or an hour, to a queue, a job class or a failure group. resolution: seconds; start: epoch
-- milliseconds; queue: empty for all together; counts: see backends/statistics.py. In the order of time: all that is
-- written at once is side by side, and what has expired is at the left end.
CREATE TABLE IF NOT EXISTS {db}.statistics (
    resolution INT NOT NULL,
    start BIGINT NOT NULL,
    kind TINYINT NOT NULL,
    queue VARBINARY(64) NOT NULL,
    name VARBINARY(1000) NOT NULL,
    counts VARBINARY(4000) NOT NULL,
    PRIMARY KEY (resolution, start, kind, queue, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

UPDATE {db}.settings SET value = 8 WHERE name = 'schema_version' AND value < 8;
