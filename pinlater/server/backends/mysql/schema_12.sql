-- Version 12: how many shards the new jobs of a queue go to.

-- shards: NULL: all; -1: as many as the load needs, which is shards_by_load, or, if that is NULL, not known yet.
ALTER TABLE {db}.queues ADD COLUMN (shards INT NULL, shards_by_load INT NULL);

UPDATE {db}.settings SET value = 12 WHERE name = 'schema_version' AND value < 12;
