-- Version 9: statistics, and how long a succeeded job ran.

ALTER TABLE jobs ADD COLUMN run_ms INTEGER;       -- of the last attempt of a SUCCEEDED job; NULL: short, or not told

-- What happened in a minute or an hour, to a queue, a job class or a failure group; see backends/statistics.py. In the
-- order of time: all that is written at once is side by side, and what has expired is at the left end.
CREATE TABLE statistics (
    resolution INTEGER NOT NULL,              -- seconds
    start INTEGER NOT NULL,                   -- epoch milliseconds
    kind INTEGER NOT NULL,
    queue TEXT NOT NULL,                      -- empty: all queues
    name TEXT NOT NULL,
    counts TEXT NOT NULL,
    PRIMARY KEY (resolution, start, kind, queue, name)
) WITHOUT ROWID;
