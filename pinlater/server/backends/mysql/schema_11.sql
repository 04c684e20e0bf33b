-- Version 11: children on other shards than their parents.

-- parent_id of a job whose parent is on another shard is negative, a hash of the parent's descriptor: so children of one
-- parent are found by it all the same. See children.py.

-- Messages to jobs of other shards, until these have them. origin: of the server process that has stored them.
CREATE TABLE IF NOT EXISTS {db}.outgoing (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    shard VARBINARY(64) NOT NULL,
    origin BIGINT NOT NULL,
    stored_at BIGINT NOT NULL,
    job VARBINARY(400) NOT NULL,
    name VARBINARY(800) NOT NULL,
    message_id VARBINARY(800) NOT NULL,
    kind TINYINT NOT NULL,
    payload_bytes INT NOT NULL,
    payload LONGBLOB NOT NULL,
    KEY outgoing_by_shard (shard, stored_at),
    KEY outgoing_by_origin (shard, origin, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

UPDATE {db}.settings SET value = 11 WHERE name = 'schema_version' AND value < 11;
