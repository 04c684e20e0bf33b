-- Version 2: worker reports.

-- The index has the size of reports, so that no more are read than fit into an answer.
CREATE TABLE IF NOT EXISTS {db}.reports (
    worker_id VARBINARY(800) NOT NULL PRIMARY KEY,
    reported_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    report_bytes INT NOT NULL,
    report MEDIUMBLOB NOT NULL,
    KEY reports_expiring (expires_at, report_bytes)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

UPDATE {db}.settings SET value = 2 WHERE name = 'schema_version' AND value < 2;
