-- Version 16: the parent of many children is stored once, not with each.

-- A run of jobs with consecutive ids that are children of one parent, with one message name and consecutive positions.
CREATE TABLE families (
    last_id INTEGER PRIMARY KEY,
    first_id INTEGER NOT NULL,
    parent_id INTEGER NOT NULL,
    parent TEXT NOT NULL,       -- its descriptor
    name TEXT NOT NULL,         -- of the messages to it
    position INTEGER NOT NULL,  -- of the first job
    is_open INTEGER NOT NULL DEFAULT 1  -- whether any of the jobs may be PENDING or IN_PROGRESS
);

INSERT INTO families (last_id, first_id, parent_id, parent, name, position, is_open)
SELECT max(id), min(id), parent_id, descriptor, name, min(position), max(state <= 1)
FROM (
    SELECT *, id - row_number() OVER (PARTITION BY parent_id, descriptor, name, position - id ORDER BY id) AS run
    FROM (
        SELECT id, state, parent_id, json_extract(parent, '$[0]') AS descriptor, json_extract(parent, '$[1]') AS name,
               json_extract(parent, '$[2]') AS position
        FROM jobs WHERE parent_id IS NOT NULL
    )
)
GROUP BY parent_id, descriptor, name, position - id, run, id / 250;

CREATE INDEX families_open ON families (parent_id) WHERE is_open;

-- jobs.parent and jobs.open_parent_id stay empty from now on; to drop them would be to write all jobs anew.
-- jobs.parent_id is only set with an is_cancelled of 2, for the index of such jobs.
-- The range spares a store without such jobs to read all jobs once more.
DROP INDEX IF EXISTS jobs_children;
UPDATE jobs SET parent = NULL, open_parent_id = NULL, parent_id = iif(is_cancelled = 2, parent_id, NULL)
WHERE parent_id IS NOT NULL AND id BETWEEN (SELECT min(first_id) FROM families) AND (SELECT max(last_id) FROM families);
