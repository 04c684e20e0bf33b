-- Version 3: results of calls with an idempotency key, for when a call is repeated.

-- number: first id of new jobs, or number of jobs changed. elsewhere: the existing jobs that had the unique keys of new
-- ones, as JSON: [[index in the call, priority, id], ...].
CREATE TABLE IF NOT EXISTS {db}.call_results (
    call_key BINARY(16) NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL,
    elsewhere MEDIUMBLOB NULL,
    expires_at BIGINT NOT NULL,
    KEY call_results_expiring (expires_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

UPDATE {db}.settings SET value = 3 WHERE name = 'schema_version' AND value < 3;
