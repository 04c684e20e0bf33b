-- Version 5: what calls with an idempotency key have answered, for when they are sent again.

CREATE TABLE call_results (
    key BLOB PRIMARY KEY,
    number INTEGER NOT NULL,                  -- first id of new jobs; or how many jobs were changed
    places TEXT,                              -- of new jobs of which some were there: [[priority, id], ...]
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX call_results_expiring ON call_results (expires_at);
