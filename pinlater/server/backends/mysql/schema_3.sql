-- Version 3: what calls with an idempotency key have answered, for when they are sent again.

-- number: first id of new jobs, or how many jobs were changed. elsewhere: of new jobs whose unique key others had, these
-- others, as JSON: [[place in the call, priority, id], ...].
CREATE TABLE IF NOT EXISTS {db}.call_results (
    call_key BINARY(16) NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL,
    elsewhere MEDIUMBLOB NULL,
    expires_at BIGINT NOT NULL,
    KEY call_results_expiring (expires_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

UPDATE {db}.settings SET value = 3 WHERE name = 'schema_version' AND value < 3;
