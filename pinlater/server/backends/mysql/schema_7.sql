-- Version 7: results of jobs, cancellation, messages to jobs, and jobs that have a parent.

-- result: of a SUCCEEDED job. is_cancelled: FAILED: it was cancelled; IN_PROGRESS: it is asked to stop.
-- parent_id, parent, parent_message, parent_position: the job that waits for the end of this one; its descriptor; name and
-- id of the message that it gets then. waits_for: of a sleeping job: what wakes it, as JSON: [[name, number], ...].
-- messages: how many the job has. children: counts the calls that stored jobs whose parent it is. Both are changed by
-- whoever needs the job to stay as it is, so that nodes of a cluster find out about each other.
-- All are added at once, or, if they are there, none: the error is passed over. No row is rewritten.
ALTER TABLE {db}.jobs ADD COLUMN (
    result LONGBLOB NULL,
    is_cancelled TINYINT NOT NULL DEFAULT 0,
    parent_id BIGINT NULL,
    parent VARBINARY(400) NULL,
    parent_message VARBINARY(800) NULL,
    parent_position INT NULL,
    waits_for MEDIUMBLOB NULL,
    messages INT NOT NULL DEFAULT 0,
    children INT NOT NULL DEFAULT 0
);

-- The messages of jobs. Those of one name have the numbers 1, 2, 3, ...: none is deleted but all of a job. They are
-- stored under the lock of their job.
CREATE TABLE IF NOT EXISTS {db}.messages (
    job_id BIGINT NOT NULL,
    name VARBINARY(800) NOT NULL,
    number BIGINT NOT NULL,
    message_id VARBINARY(800) NOT NULL,
    kind TINYINT NOT NULL,
    payload_bytes INT NOT NULL,
    payload LONGBLOB NOT NULL,
    PRIMARY KEY (job_id, name, number),
    UNIQUE KEY messages_by_id (job_id, name, message_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- The jobs with a parent that have not finished and are not asked to stop, by parent.
CREATE TABLE IF NOT EXISTS {db}.children (
    parent_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    PRIMARY KEY (parent_id, id)
) ENGINE = InnoDB;

-- Deleted jobs that had too many messages to delete them in the same transaction; the monitor does it.
CREATE TABLE IF NOT EXISTS {db}.deleted_inboxes (
    job_id BIGINT NOT NULL PRIMARY KEY
) ENGINE = InnoDB;

UPDATE {db}.settings SET value = 7 WHERE name = 'schema_version' AND value < 7;
