-- Version 15: the results of children that end together are one row of messages.

-- NULL: the row is one message. Otherwise it has one for each child: id is their ids, joined by commas; payload is
-- their results, one after the other; sizes is how many bytes each has, joined by commas; number is that of the last.
ALTER TABLE messages ADD COLUMN sizes TEXT;

-- Children that succeed do not end again, so their ids are not looked up.
DROP INDEX messages_by_id;
CREATE UNIQUE INDEX messages_by_id ON messages (job_id, name, id) WHERE sizes IS NULL;

ALTER TABLE jobs ADD COLUMN open_parent_id INTEGER;  -- empty since version 16
