-- Version 4: what workers have reported of themselves.

CREATE TABLE reports (
    worker_id TEXT PRIMARY KEY,
    report BLOB NOT NULL,
    reported_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);

CREATE INDEX reports_expiring ON reports (expires_at);
