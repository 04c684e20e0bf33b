-- Version 5: where the servers of this store listen for notifications of one another.

-- secret: what their messages are signed with.
CREATE TABLE IF NOT EXISTS {db}.listeners (
    listener BINARY(16) NOT NULL PRIMARY KEY,
    host VARBINARY(64) NOT NULL,
    port INT NOT NULL,
    secret BINARY(16) NOT NULL,
    expires_at BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

UPDATE {db}.settings SET value = 5 WHERE name = 'schema_version' AND value < 5;
