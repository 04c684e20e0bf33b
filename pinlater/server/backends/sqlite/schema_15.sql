-- Version 15: the results of children that end together are one row of messages, and a claim of a child leaves the index
-- of unfinished children alone.

-- NULL: the row is one message. Otherwise it has one for each child: id is their ids, joined by commas; payload is
-- their results, one after the other; sizes is how many bytes each has, joined by commas; number is that of the last.
ALTER TABLE messages ADD COLUMN sizes TEXT;

-- Children that succeed do not end again, so their ids are not looked up.
DROP INDEX messages_by_id;
CREATE UNIQUE INDEX messages_by_id ON messages (job_id, name, id) WHERE sizes IS NULL;

ALTER TABLE jobs ADD COLUMN open_parent_id INTEGER;  -- parent_id as long as the job is PENDING or IN_PROGRESS
UPDATE jobs SET open_parent_id = parent_id WHERE parent_id IS NOT NULL AND state <= 1;
DROP INDEX jobs_children;
CREATE INDEX jobs_children ON jobs (open_parent_id) WHERE open_parent_id IS NOT NULL AND is_cancelled = 0;
