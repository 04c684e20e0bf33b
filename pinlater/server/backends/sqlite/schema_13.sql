-- Version 13: how many shards the new jobs of a queue go to. There is one here; the setting is kept as by other stores.

ALTER TABLE queues ADD COLUMN shards INTEGER;          -- NULL: all; -1: as many as the load needs
ALTER TABLE queues ADD COLUMN shards_by_load INTEGER;  -- how many that is; NULL: not known yet
