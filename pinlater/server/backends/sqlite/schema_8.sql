-- Version 8: what jobs tell each other: results, that they are to stop, parents, messages.

ALTER TABLE jobs ADD COLUMN is_cancelled INTEGER NOT NULL DEFAULT 0;  -- IN_PROGRESS: asked to stop; FAILED: the mark
ALTER TABLE jobs ADD COLUMN result BLOB;          -- of a SUCCEEDED job; NULL: it returned nothing
ALTER TABLE jobs ADD COLUMN parent_id INTEGER;    -- NULL: none
ALTER TABLE jobs ADD COLUMN parent TEXT;          -- [descriptor, name of the message, position]
ALTER TABLE jobs ADD COLUMN waits_for TEXT;       -- [[name, number], ...]; NULL: it does not sleep

-- An index of unfinished children was here. Version 16 has none, so an upgrade need not read all jobs for it.

-- Numbers are without gaps, so the largest says how many there are.
CREATE TABLE messages (
    job_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind INTEGER NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (job_id, name, number)
) WITHOUT ROWID;

CREATE UNIQUE INDEX messages_by_id ON messages (job_id, name, id);

-- Deleted jobs whose messages are yet to be deleted, some at a time: a job may have many.
CREATE TABLE deleted_receivers (job_id INTEGER PRIMARY KEY);

-- Whether a job ever had a parent, had messages, was asked to stop.
ALTER TABLE queues ADD COLUMN has_parents INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN has_messages INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN has_cancelled INTEGER NOT NULL DEFAULT 0;
