-- Every statement that a MySQL shard runs. `{db}` is its database, `:name` a value: a number, a text, bytes, or a list. Other
-- names in braces stand for parts: those defined here under that name, or by queries.py.
-- Jobs given by id are found by the primary key (FORCE INDEX), never by a scan of another index. They are changed in id
-- order, so that transactions wait for each other rather than deadlock. A DELETE ignores FORCE INDEX while the
-- optimizer considers the table small: it scans all jobs, and waits for those that others have locked. So a DELETE
-- joins the ids, in that order. A SELECT obeys FORCE INDEX, but scans if it needs nothing but the id.
-- A subquery whose columns are compared with those of the outer query is ordered by all columns of its index: MySQL does
-- not take the compared ones as constants, and would read and sort all rows instead of taking the first one.
-- A locking scan also locks the index entries of the jobs it skips, and so blocks transactions that change these jobs.
-- So each job may be scanned with locks by one index only: PENDING jobs by jobs_in_order, for claims; all others by
-- jobs_by_moment, for the monitor. Other scans lock nothing; the statements that follow them do.
-- 4503599627370496 is WAITS_FOR_KEY_MS: a job with a key and a `run_after` of at least this waits for its key. Where
-- :has_keys is false, no job with a key is expected: for one that has a key, `state` becomes NULL, which the column
-- rejects. :has_parents does the same for jobs with a parent that finish.

-- name: begin
START TRANSACTION

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: clock
-- The clock, in milliseconds, when this is evaluated; NOW would be the time at which the statement began. Sessions use
-- UTC (see session.py): with daylight saving time, this would be off by an hour for one hour of each year.
SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000 AS DOUBLE)

-- name: store_clock_record
-- How far this server's time is ahead of the clock, in milliseconds, and what the clock showed then.
INSERT INTO {db}.settings (name, value) VALUES ('time_ahead', :ahead), ('time_seen', :seen)
ON DUPLICATE KEY UPDATE value = VALUES(value)

-- name: lock_version
-- A row that no transaction locks for more than a moment.
SELECT value FROM {db}.settings WHERE name = 'schema_version' FOR UPDATE SKIP LOCKED

-- name: try_to_write
-- Changes nothing, but fails where nothing can be changed.
UPDATE {db}.settings SET value = value WHERE name = ''

-- name: count_probe
-- Changes something: a member of a group that has lost the others, or a source of replicas that must confirm, accepts
-- changes, but commits none.
INSERT INTO {db}.settings (name, value) VALUES ('probes', 1) ON DUPLICATE KEY UPDATE value = value + 1

-- name: reserve_ids
-- A block of ids for one server; the insert id of the statement is the end of the block.
UPDATE {db}.settings SET value = LAST_INSERT_ID(value + :count) WHERE name = 'next_job_id'

-- name: queues
SELECT id, name FROM {db}.queues WHERE name IS NOT NULL
-- name: queues_version
-- Changes with each created or deleted queue; one row, where the queues may be hundreds.
SELECT COUNT(*), CAST(COALESCE(SUM(id), 0) AS SIGNED) FROM {db}.queues WHERE name IS NOT NULL

-- name: create_queue
INSERT INTO {db}.queues (id, name, created_at) VALUES (:id, :name, :now) ON DUPLICATE KEY UPDATE id = id

-- name: delete_queue
-- Removes the name, so that nobody finds the queue; the monitor deletes its jobs in pages.
UPDATE {db}.queues SET name = NULL WHERE name = :name

-- name: queue_settings
SELECT name, is_paused, jobs_per_second, max_running, shards, shards_by_load
FROM {db}.queues WHERE name IS NOT NULL

-- name: settings_of_queue
SELECT is_paused, jobs_per_second, max_running, shards, shards_by_load FROM {db}.queues WHERE name = :name

-- name: locked_settings_of_queue
-- Locks the row, which is changed next.
SELECT is_paused, jobs_per_second, max_running, shards, shards_by_load FROM {db}.queues WHERE name = :name FOR UPDATE

-- name: change_queue_settings
UPDATE {db}.queues SET is_paused = :is_paused, jobs_per_second = :jobs_per_second, max_running = :max_running,
    shards = :shards, shards_by_load = :shards_by_load
WHERE name = :name

-- name: share_queues
-- The queues that exist; keeps them from being deleted until the transaction ends.
SELECT id FROM {db}.queues FORCE INDEX (PRIMARY) WHERE id IN (:queues) AND name IS NOT NULL LOCK IN SHARE MODE

-- name: present_queue
-- The value of queue_id in the first row that insert_jobs inserts for a queue: its id, or NULL if it was deleted, which
-- the column rejects. Keeps the queue from being deleted until the transaction ends.
SELECT id FROM {db}.queues FORCE INDEX (PRIMARY) WHERE id = :queue AND name IS NOT NULL LOCK IN SHARE MODE

-- name: lock_queues
-- No other transaction stores jobs in these queues until this one ends.
SELECT name FROM {db}.queues FORCE INDEX (PRIMARY) WHERE id IN (:queues) FOR UPDATE

-- name: new_columns
-- The columns of all new jobs.
id, queue_id, state, priority, run_after, moment, created_at, updated_at, attempts_allowed, attempts_remaining, body_bytes,
unique_key, custom_status, body

-- name: insert_jobs
-- job_rows.py appends the rows.
INSERT INTO {db}.jobs ({new_columns}) VALUES

-- name: insert_jobs_with_parents
-- The same, if any of the jobs has a parent. Each column costs time, even if it is NULL.
INSERT INTO {db}.jobs ({new_columns}, parent_id, parent, parent_message, parent_position) VALUES

-- name: insert_linked_jobs
-- The same, if any of the jobs has a key, a result, a run time or a cancellation mark.
INSERT INTO {db}.jobs ({new_columns}, job_key, key_limit, key_rate, result, is_cancelled, run_ms,
                       parent_id, parent, parent_message, parent_position) VALUES

-- name: lock_keys
-- keys.py appends the rows and `change_key_locks`. The rows are changed for the reason given at lock_claims.
INSERT INTO {db}.key_locks (id, changes) VALUES

-- name: change_key_locks
ON DUPLICATE KEY UPDATE changes = changes + 1

-- name: keys_of_jobs
-- With whether each has ended. Locks them, so that this stays so until the transaction ends, also of those that it has
-- not changed.
SELECT id, queue_id, job_key, state > 1 FROM {db}.jobs FORCE INDEX (PRIMARY)
WHERE id IN (:ids) AND job_key IS NOT NULL LOCK IN SHARE MODE

-- name: delete_keyed_job
-- Of one job, by a constant: much cheaper than a list.
DELETE FROM {db}.keyed_jobs USING {db}.keyed_jobs FORCE INDEX (PRIMARY) WHERE keyed_jobs.id = :id

-- name: delete_keyed_jobs
DELETE FROM {db}.keyed_jobs USING JSON_TABLE('[:ids]', '$[*]' COLUMNS (id BIGINT PATH '$')) AS deletion
STRAIGHT_JOIN {db}.keyed_jobs FORCE INDEX (PRIMARY) ON keyed_jobs.id = deletion.id

-- name: copy_keyed_jobs
-- Copies of those jobs that are not finished, as they are now.
INSERT INTO {db}.keyed_jobs (id, queue_id, job_key, state, run_after, key_limit)
SELECT id, queue_id, job_key, state, run_after, key_limit FROM {db}.jobs FORCE INDEX (PRIMARY)
WHERE id IN (:ids) AND job_key IS NOT NULL AND state <= 1
ON DUPLICATE KEY UPDATE state = VALUES(state), run_after = VALUES(run_after)

-- name: states_of_keys
-- For each (queue, key) in :wanted, its place there; id, run_after and limit (-1: none) of its first PENDING job: one that
-- is let through, or else the first that waits; and its rate. Keys are in hexadecimal. Joins the jobs, since servers of an
-- earlier version change these without the copies. With a list, the database plans each subquery once. For a single key,
-- which would pay for the list, there is states_of_keys_alone with :queue and :key; the same goes for lines_of_keys.
SELECT place, (
    SELECT CONCAT(keyed_jobs.id, ' ', keyed_jobs.run_after, ' ', COALESCE(keyed_jobs.key_limit, -1))
    FROM {db}.keyed_jobs FORCE INDEX (keyed_jobs_in_line)
    STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = keyed_jobs.id
    WHERE keyed_jobs.queue_id = wanted.queue AND keyed_jobs.job_key = UNHEX(wanted.name)
      AND keyed_jobs.state = 0 AND jobs.state = 0
    ORDER BY keyed_jobs.queue_id, keyed_jobs.job_key, keyed_jobs.state, keyed_jobs.run_after, keyed_jobs.id LIMIT 1
), (
    SELECT CONCAT(rate, ' ', next_us) FROM {db}.key_rates FORCE INDEX (PRIMARY)
    WHERE key_rates.queue_id = wanted.queue AND key_rates.job_key = UNHEX(wanted.name)
)
{of_wanted_keys}

-- name: lines_of_keys
-- The same for keys with a limit: how many of their jobs run, and run_after and id of the last PENDING one.
SELECT place, (
    SELECT COUNT(*) FROM {db}.keyed_jobs FORCE INDEX (keyed_jobs_in_line)
    STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = keyed_jobs.id
    WHERE keyed_jobs.queue_id = wanted.queue AND keyed_jobs.job_key = UNHEX(wanted.name) AND jobs.state = 1
      AND (keyed_jobs.state = 1 OR (keyed_jobs.state = 0 AND keyed_jobs.run_after < 4503599627370496))
), (
    SELECT CONCAT(run_after, ' ', id) FROM {db}.keyed_jobs FORCE INDEX (keyed_jobs_in_line)
    WHERE queue_id = wanted.queue AND job_key = UNHEX(wanted.name) AND state = 0
    ORDER BY queue_id DESC, job_key DESC, state DESC, run_after DESC, id DESC LIMIT 1
)
{of_wanted_keys}

-- name: running_of_key
-- At most as many as its limit.
SELECT :place, 'running', COUNT(*), 0, NULL FROM {db}.keyed_jobs FORCE INDEX (keyed_jobs_in_line)
STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = keyed_jobs.id
WHERE keyed_jobs.queue_id = :queue AND keyed_jobs.job_key = :key AND jobs.state = 1
  AND (keyed_jobs.state = 1 OR (keyed_jobs.state = 0 AND keyed_jobs.run_after < 4503599627370496))

-- name: waiting_for_key
-- The first jobs that wait for a key, with the times at which they are due. :place is the index of the key among the keys
-- whose rows are in the same result.
SELECT :place, 'waiting', id, run_after - 4503599627370496, key_limit FROM {db}.keyed_jobs FORCE INDEX (keyed_jobs_in_line)
WHERE queue_id = :queue AND job_key = :key AND state = 0 AND run_after >= 4503599627370496
ORDER BY run_after, id LIMIT :limit

-- name: pending_of_key
-- The jobs that are let through: at most as many as the limit, or without one, as a dequeue takes, and those that are
-- to be retried later.
SELECT :place, 'pending', jobs.id, jobs.run_after, jobs.key_limit
FROM {db}.keyed_jobs FORCE INDEX (keyed_jobs_in_line)
STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = keyed_jobs.id
WHERE keyed_jobs.queue_id = :queue AND keyed_jobs.job_key = :key AND keyed_jobs.state = 0
  AND keyed_jobs.run_after < 4503599627370496 AND jobs.state = 0

-- name: through_of_key
-- The first jobs that are let through, and whether this transaction has changed them.
SELECT :place, IF(jobs.updated_at = :now, 'ours', 'through'), jobs.id, jobs.run_after, jobs.key_limit
FROM {db}.keyed_jobs FORCE INDEX (keyed_jobs_in_line)
STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = keyed_jobs.id
WHERE keyed_jobs.queue_id = :queue AND keyed_jobs.job_key = :key AND keyed_jobs.state = 0
  AND keyed_jobs.run_after < 4503599627370496 AND jobs.state = 0
ORDER BY keyed_jobs.run_after, keyed_jobs.id LIMIT :limit

-- name: set_rate_of_key
INSERT INTO {db}.key_rates (queue_id, job_key, rate, next_us) VALUES (:queue, :key, :rate, :next_us)
ON DUPLICATE KEY UPDATE rate = :rate, next_us = :next_us

-- name: keep_rates_of_jobs
-- Stores the rates of PENDING jobs for their keys; a newer rate stays. INSERT IGNORE would warn of it.
INSERT INTO {db}.key_rates (queue_id, job_key, rate, next_us)
SELECT queue_id, job_key, key_rate, 0 FROM {db}.jobs FORCE INDEX (PRIMARY)
WHERE id IN (:ids) AND job_key IS NOT NULL AND key_rate IS NOT NULL AND state = 0
ON DUPLICATE KEY UPDATE rate = rate

-- name: first_key_rate
SELECT next_us FROM {db}.key_rates FORCE INDEX (key_rates_in_order) ORDER BY next_us LIMIT 1

-- name: idle_rates
-- The rates that have held back nothing since :before.
SELECT queue_id, job_key FROM {db}.key_rates FORCE INDEX (key_rates_in_order)
WHERE next_us < :before ORDER BY next_us LIMIT :limit

-- name: forget_rate_of_key
-- If the key has no unfinished job.
DELETE FROM {db}.key_rates WHERE queue_id = :queue AND job_key = :key AND next_us < :before AND NOT EXISTS (
    SELECT 1 FROM {db}.keyed_jobs FORCE INDEX (keyed_jobs_in_line)
    WHERE keyed_jobs.queue_id = :queue AND keyed_jobs.job_key = :key)

-- name: touch_rate_of_key
-- Puts off the next check of this rate.
UPDATE {db}.key_rates FORCE INDEX (PRIMARY) SET next_us = :now_us
WHERE queue_id = :queue AND job_key = :key AND next_us < :before

-- name: set_run_after
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET run_after = :run_after WHERE id IN (:ids) AND state = 0

-- name: set_run_after_of_keyed
-- Of the copies. One whose job a server of an earlier version has ended no longer waits then, so it holds up no others.
UPDATE {db}.keyed_jobs FORCE INDEX (PRIMARY) SET run_after = :run_after WHERE id IN (:ids) AND state = 0

-- name: set_run_after_of_failing
-- Of the copies in the other table, which few jobs have.
UPDATE {db}.failing_jobs FORCE INDEX (PRIMARY) SET run_after = :run_after WHERE id IN (:ids) AND state = 0

-- name: unique_jobs
-- The jobs that have these unique keys. A job that was ever claimed has a claim_lease.
SELECT unique_key, priority, id, created_at, claim_lease IS NOT NULL FROM {db}.jobs FORCE INDEX (jobs_by_key)
WHERE queue_id = :queue AND unique_key IN (:keys)

-- name: unique_periods
-- The keys whose period has not ended.
SELECT unique_key, priority, job_id FROM {db}.unique_periods FORCE INDEX (PRIMARY)
WHERE queue_id = :queue AND unique_key IN (:keys) AND ends_at > :now

-- name: insert_periods
-- unique_keys.py appends the rows.
INSERT INTO {db}.unique_periods (queue_id, unique_key, priority, job_id, ends_at) VALUES

-- name: replace_ended_periods
-- Appended to those rows. MySQL assigns from left to right, so ends_at, which is compared, comes last.
ON DUPLICATE KEY UPDATE priority = IF(ends_at <= :now, VALUES(priority), priority),
    job_id = IF(ends_at <= :now, VALUES(job_id), job_id), ends_at = IF(ends_at <= :now, VALUES(ends_at), ends_at)

-- name: period_jobs
-- A locking read: the transaction has just inserted or locked these rows.
SELECT job_id FROM {db}.unique_periods FORCE INDEX (PRIMARY)
WHERE queue_id = :queue AND unique_key IN (:keys) FOR UPDATE

-- name: doomed_jobs
-- What belongs to jobs that are about to be deleted, with the parent that has each among its children; locks them in
-- the order in which they are deleted.
SELECT id, job_key, unique_key, IF(state <= 1 OR is_cancelled = 2, parent_id, NULL), messages
FROM {db}.jobs FORCE INDEX (PRIMARY)
WHERE id IN (:ids) AND state = :state AND queue_id = :queue AND (:is_any OR priority = :priority) FOR UPDATE

-- name: end_periods
DELETE FROM {db}.unique_periods WHERE queue_id = :queue AND unique_key IN (:keys)

-- name: expired_periods
SELECT queue_id, unique_key FROM {db}.unique_periods FORCE INDEX (unique_periods_ending)
WHERE ends_at <= :now ORDER BY ends_at LIMIT :limit

-- name: delete_expired_periods
-- By the primary key, in the order in which insert_periods locks the rows.
DELETE FROM {db}.unique_periods WHERE queue_id = :queue AND unique_key IN (:keys) AND ends_at <= :now

-- name: replace_job
-- Only a job that was never claimed. One that waits for an ordered key is put off, but not moved ahead of others.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET
    body_bytes = :body_bytes,
    body = :body,
    attempts_allowed = :attempts,
    attempts_remaining = :attempts,
    custom_status = :status,
    run_after = COALESCE(IF(job_key IS NOT NULL AND run_after >= 4503599627370496,
        IF(key_limit <=> 0, GREATEST(run_after, :run_after + 4503599627370496), :run_after + 4503599627370496), :run_after),
        run_after),
    updated_at = :now,
    failure_group = NULL
WHERE id = :id AND state = 0 AND claim_lease IS NULL

-- name: free_keys
-- Started jobs that give up their unique keys.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET unique_key = NULL WHERE id IN (:ids)

-- name: stored_ids
-- Which of these jobs there are: an attempt with an unknown outcome has stored them, or another server.
SELECT id FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids)

-- name: setting
SELECT value FROM {db}.settings WHERE name = :name

-- name: create_setting
-- Unless another server has created it.
INSERT INTO {db}.settings (name, value) VALUES (:name, 0) ON DUPLICATE KEY UPDATE value = value

-- name: update_setting
-- Unless another server has changed it.
UPDATE {db}.settings SET value = :value WHERE name = :name AND value = :was

-- name: delete_setting
-- One at a time: for a list, the optimizer would scan this small table, and wait for the rows that others have locked.
DELETE FROM {db}.settings WHERE name = :name

-- name: queue_exists
SELECT 1 FROM {db}.queues WHERE id = :queue AND name IS NOT NULL

-- name: lock_claims
-- Allows one claim at a time over all servers, for queues that limit running jobs. It does not lock the queue's row,
-- since a server that is suspended with that lock would block enqueues. It changes its row, so that a cluster whose
-- nodes do not see each other's locks detects a second claim at the commit.
INSERT INTO {db}.settings (name, value) VALUES (CONCAT('claims of queue ', :queue), 0)
ON DUPLICATE KEY UPDATE value = value + 1

-- name: running_jobs
SELECT COUNT(*) FROM {db}.jobs FORCE INDEX (jobs_in_order) WHERE queue_id = :queue AND state = 1

-- name: pending_behind
-- When the first job of a priority falls due, starting at :start and behind the first :skipped jobs.
SELECT run_after FROM {db}.jobs FORCE INDEX (jobs_in_order)
WHERE queue_id = :queue AND state = 0 AND priority = :priority AND run_after >= :start
ORDER BY run_after LIMIT :skipped, 1

-- name: size
-- The size of the shard's tables, by the database's statistics.
SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables
WHERE table_schema = '{db}'

-- name: first_due
-- When the first job of each priority of each queue falls due.
SELECT queues.name, levels.priority, (
    SELECT run_after FROM {db}.jobs FORCE INDEX (jobs_in_order)
    WHERE queue_id = queues.id AND state = 0 AND jobs.priority = levels.priority
    ORDER BY queue_id, state, jobs.priority, run_after LIMIT 1
)
FROM {db}.queues FORCE INDEX (queues_by_name)
CROSS JOIN JSON_TABLE('[:levels]', '$[*]' COLUMNS (priority TINYINT PATH '$')) AS levels
WHERE queues.name IN (:names)

-- name: due_queues
-- When the first job of each priority of each queue falls due, if that is at :before or earlier. A queue without
-- PENDING jobs costs one index lookup.
SELECT pending.name, (
    SELECT run_after FROM {db}.jobs FORCE INDEX (jobs_in_order)
    WHERE queue_id = pending.id AND state = 0 AND jobs.priority = levels.priority
    ORDER BY queue_id, state, jobs.priority, run_after LIMIT 1
) AS due
FROM (
    SELECT id, name, (
        SELECT 1 FROM {db}.jobs FORCE INDEX (jobs_in_order) WHERE queue_id = queues.id AND state = 0 LIMIT 1
    ) AS is_pending
    FROM {db}.queues FORCE INDEX (queues_by_name) WHERE name IS NOT NULL HAVING is_pending IS NOT NULL
) AS pending
CROSS JOIN JSON_TABLE('[:levels]', '$[*]' COLUMNS (priority TINYINT PATH '$')) AS levels
HAVING due <= :before

-- name: states_in_use
-- Whether each queue has jobs of each state.
SELECT name,
    EXISTS (SELECT 1 FROM {db}.jobs FORCE INDEX (jobs_in_order) WHERE queue_id = queues.id AND state = 0),
    EXISTS (SELECT 1 FROM {db}.jobs FORCE INDEX (jobs_in_order) WHERE queue_id = queues.id AND state = 1),
    EXISTS (SELECT 1 FROM {db}.jobs FORCE INDEX (jobs_in_order) WHERE queue_id = queues.id AND state = 2),
    EXISTS (SELECT 1 FROM {db}.jobs FORCE INDEX (jobs_in_order) WHERE queue_id = queues.id AND state = 3)
FROM {db}.queues WHERE name IS NOT NULL

-- name: next_due
SELECT run_after FROM {db}.jobs FORCE INDEX (jobs_in_order)
WHERE queue_id = :queue AND state = 0 AND priority = :priority AND run_after > :now
ORDER BY run_after LIMIT 1

-- name: candidate_columns
-- Large bodies are read later, when it is known which jobs fit into the answers.
id, body_bytes, attempts_allowed, attempts_remaining, created_at, run_after, IF(body_bytes > :small, NULL, body), job_key,
failure_group IS NOT NULL

-- name: claimable_jobs
-- Locks due jobs, in order, starting at :start; skips those that another claim has locked.
SELECT {candidate_columns} FROM {db}.jobs FORCE INDEX (jobs_in_order)
WHERE queue_id = :queue AND state = 0 AND priority = :priority AND run_after BETWEEN :start AND :now
ORDER BY run_after, id LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: claimable_of_ids
-- Locks those of the given jobs that are due.
SELECT priority, {candidate_columns} FROM {db}.jobs FORCE INDEX (PRIMARY)
WHERE id IN (:ids) AND state = 0 AND run_after <= :now
FOR UPDATE

-- name: peek_jobs
SELECT {candidate_columns} FROM {db}.jobs FORCE INDEX (jobs_in_order)
WHERE queue_id = :queue AND state = 0 AND priority = :priority AND run_after <= :now
ORDER BY run_after, id LIMIT :limit

-- name: claim_jobs
UPDATE {db}.jobs FORCE INDEX (PRIMARY)
SET state = 1, claim = :claim, moment = :expires, claim_lease = :lease, updated_at = :now, waits_for = NULL
WHERE id IN (:ids) AND state = 0

-- name: job_bodies
SELECT id, body FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids)

-- name: held
-- Which jobs acks are about: those of one claim and priority.
id IN (:ids) AND state = 1 AND queue_id = :queue AND priority = :priority AND (:is_any OR claim = :claim)

-- name: succeeded
-- IN_PROGRESS -> SUCCEEDED.
state = IF((:has_keys OR job_key IS NULL) AND (:has_parents OR parent_id IS NULL), 2, NULL), moment = :now,
updated_at = :now, unique_key = NULL, is_cancelled = 0, failure_group = NULL

-- name: succeed_jobs
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET {succeeded} WHERE {held}

-- name: succeed_job
-- The same with a status.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET {succeeded}, custom_status = LEFT(CONCAT(custom_status, :status), 5000)
WHERE {held}

-- name: succeed_with_results
-- The same, each with its result; the results are in the order of the ids.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET {succeeded}, custom_status = LEFT(CONCAT(custom_status, :status), 5000),
    result = ELT(FIELD(id, :ids), :results)
WHERE {held}

-- name: keep_run_times
-- For jobs that have succeeded in this transaction; the times are in the order of the ids.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET run_ms = ELT(FIELD(id, :ids), :times)
WHERE id IN (:ids) AND state = 2 AND updated_at = :now AND queue_id = :queue AND (:is_any OR claim = :claim)

-- name: fail_attempts
-- IN_PROGRESS -> PENDING at :retry_at with one attempt less, for jobs with attempts left; not for those that are asked
-- to stop and have nothing to undo.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET
    state = IF(:has_keys OR job_key IS NULL, 0, NULL),
    run_after = IF(job_key IS NULL, :retry_at, LEAST(:retry_at, 4503599627370496 - 1)),
    claim = NULL,
    moment = NULL,
    updated_at = :now,
    waits_for = NULL,
    custom_status = LEFT(CONCAT(custom_status, :status), 5000),
    failure_group = IF(is_cancelled, NULL, :failure_group),
    attempts_remaining = attempts_remaining - 1
WHERE {held} AND attempts_remaining > 1 AND NOT {is_to_end}

-- name: fail_jobs
-- IN_PROGRESS -> FAILED after the last attempt, or after any attempt if :is_final, or if the job is asked to stop and
-- has nothing to undo; the claim stays.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET
    state = IF((:has_keys OR job_key IS NULL) AND (:has_parents OR parent_id IS NULL), 3, NULL),
    moment = :now,
    unique_key = NULL,
    updated_at = :now,
    is_cancelled = GREATEST(is_cancelled, :is_cancelled),
    custom_status = LEFT(CONCAT(custom_status, :status), 5000),
    failure_group = IF(is_cancelled, NULL, :failure_group),
    attempts_remaining = 0
WHERE {held} AND (:is_final OR attempts_remaining <= 1 OR {is_to_end})

-- name: lock_jobs
-- Locks jobs in the order of ids, before statements change them in other orders.
SELECT state FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids) FOR UPDATE

-- name: claims_of_jobs
SELECT id, claim, is_cancelled FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids) AND state = 1 AND queue_id = :queue

-- name: holders_of_jobs
SELECT id, claim FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids) AND state = 1

-- name: checkpoint_job
-- A job that is asked to stop and given back becomes FAILED, unless it has something to undo by its new body; it is due
-- at once if it does not undo that yet. A job that is asked to stop sets the insert id.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET
    body_bytes = IF(:has_body, :body_bytes, body_bytes),
    body = IF(:has_body, :body, body),
    state = IF(:is_back, IF((:has_keys OR job_key IS NULL) AND (:has_parents OR parent_id IS NULL OR NOT is_cancelled),
                            IF({is_to_end}, 3, 0), NULL), 1),
    run_after = IF(:is_back AND {is_due_at_once}, run_after,
                   IF(job_key IS NULL, COALESCE(:run_after, run_after),
                      LEAST(COALESCE(:run_after, run_after), 4503599627370496 - 1))),
    custom_status = IF(:is_back AND :attempts = attempts_allowed AND CHAR_LENGTH(CONCAT(:status, custom_status)) > 1600,
        CONCAT(LEFT(CONCAT(:status, custom_status), 1598), '…', CHAR(10 USING utf8mb4)),
        LEFT(CONCAT(:status, custom_status), 5000)),
    attempts_allowed = COALESCE(:attempts, attempts_allowed),
    attempts_remaining = COALESCE(:attempts, attempts_remaining),
    messages = messages + :kept,
    claim = IF(:is_back AND NOT {is_to_end}, NULL, claim),
    moment = IF(:is_back, IF({is_to_end}, :now, NULL), :now + claim_lease),
    unique_key = IF(:is_back AND {is_to_end}, NULL, unique_key),
    waits_for = IF(is_cancelled, NULL, :waits_for),
    updated_at = :now + IF(is_cancelled, 0 * LAST_INSERT_ID(id), 0),
    failure_group = IF(:attempts IS NOT NULL OR (is_cancelled AND :is_back), NULL, failure_group)
WHERE id = :id AND state = 1 AND queue_id = :queue AND priority = :priority AND claim = :claim

-- name: keep_message
-- A message that a claimed job keeps for its later attempts, unless it has it already; after lock_jobs.
INSERT INTO {db}.messages (job_id, name, number, message_id, kind, payload_bytes, payload)
SELECT :id, :name, 1 + COALESCE((
    SELECT number FROM {db}.messages AS others FORCE INDEX (PRIMARY)
    WHERE job_id = :id AND name = :name ORDER BY number DESC LIMIT 1), 0), :message_id, 0, :payload_bytes, :payload
FROM {db}.jobs FORCE INDEX (PRIMARY)
WHERE id = :id AND state = 1 AND queue_id = :queue AND priority = :priority AND claim = :claim AND NOT EXISTS (
    SELECT 1 FROM {db}.messages AS known FORCE INDEX (messages_by_id)
    WHERE job_id = :id AND name = :name AND message_id = :message_id)

-- name: drop_messages
-- Deletes messages of a claimed job; after lock_jobs.
DELETE FROM {db}.messages WHERE job_id = :id AND name = :name AND EXISTS (
    SELECT 1 FROM {db}.jobs
    WHERE id = :id AND state = 1 AND queue_id = :queue AND priority = :priority AND claim = :claim)
ORDER BY number LIMIT :limit

-- name: wake_if_arrived
-- Makes a job that was just given back due, if :number messages of the name have arrived.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET run_after = :now
WHERE id = :id AND state = 0 AND waits_for = :waits_for AND run_after > :now
  AND (:number <= 0 OR EXISTS (
      SELECT 1 FROM {db}.messages FORCE INDEX (PRIMARY) WHERE job_id = :id AND name = :name AND number = :number))

-- name: renew_jobs
-- Renews the leases of jobs of one claim and priority. Sets the insert id if one of them is asked to stop.
UPDATE {db}.jobs FORCE INDEX (PRIMARY)
SET moment = :now + claim_lease, updated_at = :now + IF(is_cancelled, 0 * LAST_INSERT_ID(id), 0)
WHERE id IN (:ids) AND state = 1 AND queue_id = :queue AND priority = :priority AND claim = :claim

-- name: claims_of_queue
-- All claims of a queue.
SELECT id, claim FROM {db}.jobs FORCE INDEX (jobs_in_order) WHERE queue_id = :queue AND state = 1

-- name: release_jobs
-- IN_PROGRESS -> PENDING, no attempt spent, or FAILED if the job is asked to stop and has nothing to undo; for jobs of
-- one claim.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET
    state = IF({is_to_end}, 3, 0),
    claim = IF({is_to_end}, claim, NULL),
    moment = IF({is_to_end}, :now, NULL),
    unique_key = IF({is_to_end}, NULL, unique_key),
    failure_group = IF(is_cancelled, NULL, failure_group),
    waits_for = NULL,
    updated_at = :now
WHERE id IN (:ids) AND state = 1 AND queue_id = :queue AND claim = :claim

-- name: lookup_jobs
SELECT id, state, priority, attempts_allowed, attempts_remaining, custom_status, created_at, run_after, updated_at,
       claim, IF(:body_bytes, LEFT(body, :body_bytes), NULL), unique_key, queue_id, job_key, key_limit, key_rate, IF(:has_result, result, NULL),
       is_cancelled, parent, parent_message, parent_position, waits_for, failure_group, run_ms
FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids)

-- name: jobs_to_cancel
SELECT id, priority, state, is_cancelled, parent_id, state = 0 AND {has_to_undo},
       is_cancelled = 2 OR children > 0 OR messages > 0, unique_key
FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids) AND queue_id = :queue FOR UPDATE

-- name: cancel_pending
-- PENDING -> FAILED; not due later, since counts and scans would take it for a future job.
UPDATE {db}.jobs FORCE INDEX (PRIMARY)
SET state = 3, is_cancelled = 1, moment = :now, updated_at = :now, unique_key = NULL, waits_for = NULL,
    failure_group = NULL,
    run_after = LEAST(run_after - {key_wait}, :now),
    custom_status = LEFT(CONCAT(custom_status, :status), 5000)
WHERE id IN (:ids)

-- name: ask_to_stop
UPDATE {db}.jobs FORCE INDEX (PRIMARY)
SET is_cancelled = 1, failure_group = NULL, updated_at = :now,
    custom_status = LEFT(CONCAT(custom_status, :status), 5000)
WHERE id IN (:ids)

-- name: mark_with_children
-- Cancelled jobs that are still among the children of their parents.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET is_cancelled = 2 WHERE id IN (:ids)

-- name: jobs_with_children
-- Cancelled jobs that are still among the children of their parents; locks them.
SELECT parent_id, id FROM {db}.jobs FORCE INDEX (PRIMARY)
WHERE id IN (:ids) AND queue_id = :queue AND is_cancelled = 2 FOR UPDATE

-- name: finish_cancellation
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET is_cancelled = 1 WHERE id IN (:ids)

-- name: inboxes
-- Those jobs that can get messages; locks them until the transaction ends. Those that are FAILED are told how their
-- children end, since they may be retried, and then wait for these.
SELECT id, queue_id, priority, state, run_after, waits_for, job_key FROM {db}.jobs FORCE INDEX (PRIMARY)
WHERE id IN (:ids) AND state <> 2 FOR UPDATE

-- name: message_counts
-- For each (job, name) in :counted, its place there and how many such messages the job has. Names are in hexadecimal.
SELECT place, (SELECT number FROM {db}.messages FORCE INDEX (PRIMARY)
               WHERE job_id = wanted.job AND name = UNHEX(wanted.name)
               ORDER BY job_id DESC, name DESC, number DESC LIMIT 1)
FROM JSON_TABLE(:counted, '$[*]' COLUMNS (place FOR ORDINALITY, job BIGINT PATH '$[0]', name TEXT PATH '$[1]')) AS wanted

-- name: known_messages
-- The places in :wanted of the messages that their jobs already have.
SELECT place FROM JSON_TABLE(:wanted, '$[*]' COLUMNS (
    place FOR ORDINALITY, job BIGINT PATH '$[0]', name TEXT PATH '$[1]', id TEXT PATH '$[2]')) AS wanted
STRAIGHT_JOIN {db}.messages FORCE INDEX (messages_by_id)
    ON job_id = wanted.job AND messages.name = UNHEX(wanted.name) AND message_id = UNHEX(wanted.id)

-- name: insert_messages
-- messages.py appends the rows.
INSERT INTO {db}.messages (job_id, name, number, message_id, kind, payload_bytes, payload) VALUES

-- name: count_messages
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET messages = messages + :count WHERE id IN (:ids)

-- name: key_wait
-- What is added to the run_after of a job that waits for its key.
IF(job_key IS NOT NULL AND jobs.run_after >= 4503599627370496, 4503599627370496, 0)

-- name: waits_in_order
-- Whether a job waits for an ordered key.
(job_key IS NOT NULL AND jobs.run_after >= 4503599627370496 AND key_limit <=> 0)

-- name: wake_jobs
-- Makes jobs due that are not; those that wait for their keys go on waiting, as if due now, or if the key is ordered,
-- in their places. Due jobs keep their places.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) LEFT JOIN {db}.failing_jobs FORCE INDEX (PRIMARY) ON failing_jobs.id = jobs.id
SET jobs.run_after = LEAST(jobs.run_after, :now + {key_wait}),
    jobs.updated_at = :now,
    failing_jobs.run_after = LEAST(jobs.run_after, :now + {key_wait})
WHERE jobs.id IN (:ids) AND NOT {waits_in_order}

-- name: message_sizes
SELECT number, payload_bytes FROM {db}.messages FORCE INDEX (PRIMARY)
WHERE job_id = :job AND name = :name AND number > :after ORDER BY number LIMIT :limit

-- name: read_messages
SELECT number, message_id, payload, kind FROM {db}.messages FORCE INDEX (PRIMARY)
WHERE job_id = :job AND name = :name AND number > :after AND number <= :last ORDER BY number

-- name: address_of_job
SELECT priority, queue_id FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id = :id

-- name: delete_messages
DELETE FROM {db}.messages USING JSON_TABLE('[:ids]', '$[*]' COLUMNS (id BIGINT PATH '$')) AS deletion
STRAIGHT_JOIN {db}.messages FORCE INDEX (PRIMARY) ON messages.job_id = deletion.id

-- name: insert_deleted_inboxes
-- messages.py appends the rows.
INSERT INTO {db}.deleted_inboxes (job_id) VALUES

-- name: touch_parents
-- Only parents that may have more children.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET children = children + 1 WHERE id IN (:ids) AND state <= 1 AND NOT is_cancelled

-- name: present_parent
-- The value of parent_id in the first row that insert_children inserts for a parent, after touch_parents: its id, or
-- NULL if it may have no more children, which the column rejects.
SELECT id FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id = :id AND state <= 1 AND NOT is_cancelled LOCK IN SHARE MODE

-- name: able_parents
SELECT jobs.id, name, priority FROM {db}.jobs FORCE INDEX (PRIMARY)
STRAIGHT_JOIN {db}.queues FORCE INDEX (PRIMARY) ON queues.id = jobs.queue_id
WHERE jobs.id IN (:ids) AND state <= 1 AND NOT is_cancelled

-- name: insert_children
-- children.py appends the rows.
INSERT INTO {db}.children (parent_id, id) VALUES

-- name: insert_children_again
-- Lists jobs again that were retried.
INSERT IGNORE INTO {db}.children (parent_id, id)
SELECT parent_id, id FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids) AND parent_id IS NOT NULL AND state = 0

-- name: delete_children
DELETE FROM {db}.children USING JSON_TABLE('[:ids]', '$[*]' COLUMNS (id BIGINT PATH '$')) AS deletion
STRAIGHT_JOIN {db}.children FORCE INDEX (PRIMARY) ON children.parent_id = :parent AND children.id = deletion.id

-- name: parents_of_jobs
-- Only parents on this shard.
SELECT parent_id FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids) AND parent_id >= 0

-- name: told_children
-- The jobs with a parent that have finished in this transaction, or all with a parent if they are about to be deleted;
-- including whether each stays among the children of its parent.
SELECT queue_id, parent_id, parent, parent_message, parent_position, id, is_cancelled = 2 AND NOT :is_deletion
FROM {db}.jobs FORCE INDEX (PRIMARY)
WHERE id IN (:ids) AND parent_id IS NOT NULL AND (:is_deletion OR state >= 2 AND updated_at = :now)

-- name: known_ends
-- The positions that a parent has messages about already; after inboxes.
SELECT wanted.position FROM JSON_TABLE('[:positions]', '$[*]' COLUMNS (position INT PATH '$')) AS wanted
STRAIGHT_JOIN {db}.messages FORCE INDEX (messages_by_id)
    ON job_id = :parent AND messages.name = :name AND message_id = CAST(wanted.position AS BINARY)

-- name: ends_of_children
-- The columns that the following statements store about jobs, with the kind of each end: for a job that has succeeded
-- (1) its result; for one that has failed (2), was cancelled (3) or is about to be deleted (4) the end of its status.
CAST(parent_position AS BINARY),
       CASE WHEN state = 2 THEN 1 WHEN state = 3 AND is_cancelled THEN 3 WHEN state = 3 THEN 2 ELSE 4 END,
       LENGTH(IF(state = 2, COALESCE(result, ''), CAST(RIGHT(custom_status, 4000) AS BINARY))),
       IF(state = 2, COALESCE(result, ''), CAST(RIGHT(custom_status, 4000) AS BINARY))
FROM JSON_TABLE('[:ids]', '$[*]' COLUMNS (place FOR ORDINALITY, id BIGINT PATH '$')) AS told
STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = told.id

-- name: insert_ends
-- The messages to a parent, in the order of the jobs; it has :count messages of this name already.
INSERT INTO {db}.messages (job_id, name, number, message_id, kind, payload_bytes, payload)
SELECT :parent, :name, :count + told.place, {ends_of_children}

-- name: leave_ends
-- The messages to parents on the shard :shard.
INSERT INTO {db}.outgoing (shard, origin, stored_at, job, name, message_id, kind, payload_bytes, payload)
SELECT :shard, :origin, :now, parent, parent_message, {ends_of_children}

-- name: children_to_cancel
SELECT name, priority, children.id FROM {db}.children FORCE INDEX (PRIMARY)
STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = children.id
STRAIGHT_JOIN {db}.queues FORCE INDEX (PRIMARY) ON queues.id = jobs.queue_id
WHERE children.parent_id IN (:parents) AND (state <= 1 AND NOT is_cancelled OR is_cancelled = 2) AND name IS NOT NULL
LIMIT :limit

-- name: message_ids
SELECT message_id FROM {db}.messages FORCE INDEX (PRIMARY) WHERE job_id IN (:ids) AND name = :name

-- name: outgoing_shards
SELECT DISTINCT shard FROM {db}.outgoing FORCE INDEX (outgoing_by_shard)

-- name: outgoing_sizes
-- Messages left by one server process.
SELECT id, payload_bytes FROM {db}.outgoing FORCE INDEX (outgoing_by_origin)
WHERE shard = :shard AND origin = :origin ORDER BY id LIMIT :limit

-- name: outgoing_left
-- The oldest messages left by any process, up to :before.
SELECT id, payload_bytes FROM {db}.outgoing FORCE INDEX (outgoing_by_shard)
WHERE shard = :shard AND stored_at <= :before ORDER BY stored_at, id LIMIT :limit

-- name: outgoing
SELECT id, job, name, message_id, payload, kind FROM {db}.outgoing FORCE INDEX (PRIMARY) WHERE id IN (:ids) ORDER BY id

-- name: delete_outgoing
DELETE FROM {db}.outgoing USING JSON_TABLE('[:ids]', '$[*]' COLUMNS (id BIGINT PATH '$')) AS deletion
STRAIGHT_JOIN {db}.outgoing FORCE INDEX (PRIMARY) ON outgoing.id = deletion.id

-- name: first_outgoing
SELECT id FROM {db}.outgoing FORCE INDEX (PRIMARY) ORDER BY id LIMIT 1

-- name: count_jobs
-- Jobs with a run_after from :first to :last, counted up to :cap.
SELECT COUNT(*) FROM (
    SELECT 1 FROM {db}.jobs FORCE INDEX (jobs_in_order)
    WHERE queue_id = :queue AND state = :state AND priority = :priority AND run_after BETWEEN :first AND :last
    LIMIT :cap
) AS counted

-- name: count_retrying
-- The same for PENDING jobs whose last attempt failed.
SELECT COUNT(*) FROM (
    SELECT 1 FROM {db}.failing_jobs FORCE INDEX (failing_in_order)
    WHERE queue_id = :queue AND state = 0 AND priority = :priority AND run_after BETWEEN :first AND :last
    LIMIT :cap
) AS counted

-- name: count_failing
-- The same for jobs of a failure group, of all priorities.
SELECT COUNT(*) FROM (
    SELECT 1 FROM {db}.failing_jobs FORCE INDEX (failing_by_group)
    WHERE queue_id = :queue AND failure_group = :failure_group AND state = :state AND run_after BETWEEN :first AND :last
    LIMIT :cap
) AS counted

-- name: scan_columns
-- The columns of the following queries.
jobs.id, jobs.state, jobs.priority, attempts_allowed, attempts_remaining, custom_status, created_at, jobs.run_after,
       updated_at, claim, IF(:has_body, body, NULL), unique_key, jobs.queue_id, jobs.job_key, jobs.key_limit, key_rate, NULL,
       is_cancelled, parent, parent_message, parent_position, waits_for, jobs.failure_group, run_ms

-- name: scan_jobs
-- Jobs after the position (:run_after, :id), up to the run_after :end; queries.py makes two statements of it, one with
-- the latest and one with the oldest run_after first. The condition is spelled out, since comparing tuples would not
-- use the index; this way, jobs with the same run_after are found by the index, too.
SELECT {scan_columns} FROM {db}.jobs FORCE INDEX (jobs_in_order)
WHERE queue_id = :queue AND state = :state AND priority = :priority AND run_after {within} :end
  AND (run_after {behind} :run_after OR (run_after = :run_after AND id {behind} :id))
ORDER BY run_after {order}, id {order} LIMIT :limit

-- name: next_failing
-- The same, by the copies of jobs that have a group.
failing_jobs.run_after {within} :end
  AND (failing_jobs.run_after {behind} :run_after
       OR (failing_jobs.run_after = :run_after AND failing_jobs.id {behind} :id))
ORDER BY failing_jobs.run_after {order}, failing_jobs.id {order} LIMIT :limit

-- name: scan_retrying
SELECT {scan_columns} FROM {db}.failing_jobs FORCE INDEX (failing_in_order)
STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = failing_jobs.id
WHERE failing_jobs.queue_id = :queue AND failing_jobs.state = 0 AND failing_jobs.priority = :priority
  AND {next_failing}

-- name: scan_failing
SELECT {scan_columns} FROM {db}.failing_jobs FORCE INDEX (failing_by_group)
STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = failing_jobs.id
WHERE failing_jobs.queue_id = :queue AND failing_jobs.failure_group = :failure_group AND failing_jobs.state = :state
  AND {next_failing}

-- name: scan_keyed
-- The jobs that share the key :key, and the one that has it as its unique key.
(SELECT {scan_columns} FROM {db}.keyed_jobs FORCE INDEX (keyed_jobs_in_line)
STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = keyed_jobs.id
WHERE keyed_jobs.queue_id = :queue AND keyed_jobs.job_key = :key AND keyed_jobs.state = :state AND jobs.state = :state
  AND keyed_jobs.run_after {within} :end
  AND (keyed_jobs.run_after {behind} :run_after
       OR (keyed_jobs.run_after = :run_after AND keyed_jobs.id {behind} :id))
ORDER BY keyed_jobs.run_after {order}, keyed_jobs.id {order} LIMIT :limit)
UNION ALL
(SELECT {scan_columns} FROM {db}.jobs FORCE INDEX (jobs_by_key)
WHERE queue_id = :queue AND unique_key = :key AND state = :state AND NOT job_key <=> :key
  AND (run_after {behind} :run_after OR (run_after = :run_after AND id {behind} :id)))
ORDER BY run_after {order}, id {order} LIMIT :limit

-- name: insert_failing_jobs
-- Copies of those jobs that have a group, as they are now. Locks them, since another transaction may be claiming one
-- that this transaction has not changed.
INSERT INTO {db}.failing_jobs (id, queue_id, failure_group, state, priority, run_after)
SELECT id, queue_id, failure_group, state, priority, run_after FROM {db}.jobs FORCE INDEX (PRIMARY)
WHERE id IN (:ids) AND failure_group IS NOT NULL AND (state = 0 OR state = 3) LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE failure_group = VALUES(failure_group), state = VALUES(state), run_after = VALUES(run_after)

-- name: delete_failing_jobs
DELETE FROM {db}.failing_jobs USING JSON_TABLE('[:ids]', '$[*]' COLUMNS (id BIGINT PATH '$')) AS deletion
STRAIGHT_JOIN {db}.failing_jobs FORCE INDEX (PRIMARY) ON failing_jobs.id = deletion.id

-- name: delete_revived_jobs
-- Only jobs that no longer have a group.
DELETE FROM {db}.failing_jobs USING JSON_TABLE('[:ids]', '$[*]' COLUMNS (id BIGINT PATH '$')) AS deletion
STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = deletion.id AND jobs.failure_group IS NULL
STRAIGHT_JOIN {db}.failing_jobs FORCE INDEX (PRIMARY) ON failing_jobs.id = deletion.id

-- name: set_failure_group
-- For imported jobs.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET failure_group = :failure_group WHERE id IN (:ids)

-- name: kept_failure_groups
SELECT id FROM {db}.failure_groups FORCE INDEX (PRIMARY) WHERE queue_id = :queue AND id IN (:ids)

-- name: count_failure_groups
SELECT COUNT(*) FROM {db}.failure_groups FORCE INDEX (PRIMARY) WHERE queue_id = :queue

-- name: insert_failure_groups
-- failure_groups.py appends the rows and `note_failures`.
INSERT INTO {db}.failure_groups (queue_id, id, job, error, example, first_failed_at, last_failed_at, look_at) VALUES

-- name: note_failures
ON DUPLICATE KEY UPDATE last_failed_at = GREATEST(last_failed_at, VALUES(last_failed_at))

-- name: failure_groups
-- The groups that failed last; a queue has few groups.
SELECT queue_id, id, job, error, example, first_failed_at, last_failed_at FROM {db}.failure_groups FORCE INDEX (PRIMARY)
WHERE queue_id IN (:queues) ORDER BY last_failed_at DESC LIMIT :limit

-- name: count_failed_so
SELECT COUNT(*) FROM (
    SELECT 1 FROM {db}.failing_jobs FORCE INDEX (failing_by_group)
    WHERE queue_id = :queue AND failure_group = :group AND state = :state LIMIT :cap
) AS counted

-- name: first_failure_group
SELECT look_at FROM {db}.failure_groups FORCE INDEX (failure_groups_to_look_at) ORDER BY look_at LIMIT 1

-- name: failure_groups_to_look_at
-- The groups to check, with whether each is empty and how many groups its queue has.
SELECT queue_id, id, last_failed_at,
    NOT EXISTS (SELECT 1 FROM {db}.failing_jobs FORCE INDEX (failing_by_group)
        WHERE failing_jobs.queue_id = looked_at.queue_id AND failing_jobs.failure_group = looked_at.id),
    (SELECT COUNT(*) FROM {db}.failure_groups AS all_of_queue FORCE INDEX (PRIMARY)
        WHERE all_of_queue.queue_id = looked_at.queue_id)
FROM {db}.failure_groups AS looked_at FORCE INDEX (failure_groups_to_look_at)
WHERE look_at <= :now ORDER BY look_at LIMIT :limit

-- name: outdated_failing_jobs
-- Those among the first copies of a group that differ from their jobs.
SELECT copies.id FROM (
    SELECT id, state FROM {db}.failing_jobs FORCE INDEX (failing_by_group)
    WHERE queue_id = :queue AND failure_group = :failure_group AND state = :state ORDER BY run_after LIMIT :limit
) AS copies LEFT JOIN {db}.jobs FORCE INDEX (PRIMARY)
ON jobs.id = copies.id AND jobs.state = copies.state AND jobs.failure_group = :failure_group
WHERE jobs.id IS NULL

-- name: delete_failure_groups
DELETE FROM {db}.failure_groups WHERE queue_id = :queue AND id IN (:ids)

-- name: look_at_failure_groups
UPDATE {db}.failure_groups FORCE INDEX (PRIMARY) SET look_at = :look_at WHERE queue_id = :queue AND id IN (:ids)

-- name: delete_failure_groups_of_queue
DELETE FROM {db}.failure_groups WHERE queue_id = :queue

-- name: failed_jobs
-- Jobs to retry, oldest first, after a position; see scan_jobs.
SELECT id, run_after FROM {db}.jobs FORCE INDEX (jobs_in_order)
WHERE queue_id = :queue AND state = 3 AND priority = :priority
  AND (run_after > :after_run_after OR (run_after = :after_run_after AND id > :after_id))
ORDER BY run_after, id LIMIT :limit

-- name: retry_jobs
UPDATE {db}.jobs FORCE INDEX (PRIMARY)
SET state = 0, attempts_remaining = :attempts, moment = NULL, updated_at = :now, is_cancelled = 0, waits_for = NULL,
    failure_group = NULL,
    run_after = IF(job_key IS NULL, :run_after, LEAST(:run_after, 4503599627370496 - 1) + 4503599627370496)
WHERE id IN (:ids) AND state = 3 AND queue_id = :queue AND priority = :priority

-- name: schedule_jobs
-- A job that waits for an ordered key keeps its place. With :is_put_off, jobs due earlier than :run_after are put off.
UPDATE {db}.jobs FORCE INDEX (PRIMARY)
SET updated_at = :now, run_after = :run_after + {key_wait}
WHERE id IN (:ids) AND state = 0 AND queue_id = :queue AND priority = :priority
  AND (run_after > :run_after + {key_wait} OR :is_put_off AND run_after <> :run_after + {key_wait})
  AND NOT {waits_in_order}

-- name: first_claim_expiring
SELECT moment FROM {db}.jobs FORCE INDEX (jobs_by_moment) WHERE state = 1 ORDER BY moment LIMIT 1

-- name: first_succeeded
SELECT moment FROM {db}.jobs FORCE INDEX (jobs_by_moment) WHERE state = 2 ORDER BY moment LIMIT 1

-- name: first_failed
SELECT moment FROM {db}.jobs FORCE INDEX (jobs_by_moment) WHERE state = 3 ORDER BY moment LIMIT 1

-- name: first_result_expiring
SELECT expires_at FROM {db}.call_results FORCE INDEX (call_results_expiring) ORDER BY expires_at LIMIT 1

-- name: first_period_ending
SELECT ends_at FROM {db}.unique_periods FORCE INDEX (unique_periods_ending) ORDER BY ends_at LIMIT 1

-- name: first_deleted_queue
SELECT id FROM {db}.queues FORCE INDEX (queues_by_name) WHERE name IS NULL LIMIT 1

-- name: queues_of_expired_claims
-- The queues of the claims that expired_claims finds if no other server is ending any.
SELECT queue_id FROM {db}.jobs FORCE INDEX (jobs_by_moment)
WHERE state = 1 AND moment <= :now AND (:age >= :quiet OR LEAST(claim_lease, :quiet) <= :age)
ORDER BY moment LIMIT :limit

-- name: is_last
-- Whether a job whose claim expires ends.
(attempts_remaining <= 1 OR {is_to_end})

-- name: expired_claims
-- Skips claims that another server is ending. While this server's :age is below :quiet, claims with a lease longer than
-- its age are left alone.
SELECT id, queue_id, {is_last}, parent_id FROM {db}.jobs FORCE INDEX (jobs_by_moment)
WHERE state = 1 AND moment <= :now AND (:age >= :quiet OR LEAST(claim_lease, :quiet) <= :age)
ORDER BY moment LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: expire_jobs
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET
    state = IF({is_last}, 3, 0),
    run_after = IF({is_last}, run_after, :now),
    claim = IF({is_last}, claim, NULL),
    moment = IF({is_last}, :now, NULL),
    unique_key = IF({is_last}, NULL, unique_key),
    failure_group = IF(is_cancelled, NULL, :failure_group),
    waits_for = NULL,
    updated_at = :now,
    attempts_remaining = GREATEST(attempts_remaining - 1, 0)
WHERE id IN (:ids) AND state = 1

-- name: finished_jobs
-- Jobs that finished before :before, with the parent that still has each among its children; skips those that another
-- server is deleting.
SELECT id, queue_id, messages, IF(is_cancelled = 2, parent_id, NULL) FROM {db}.jobs FORCE INDEX (jobs_by_moment)
WHERE state = :state AND moment < :before
ORDER BY moment LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: delete_ids
DELETE FROM {db}.jobs USING JSON_TABLE('[:ids]', '$[*]' COLUMNS (id BIGINT PATH '$')) AS deletion
STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = deletion.id

-- name: first_deleted_inbox
SELECT job_id FROM {db}.deleted_inboxes ORDER BY job_id LIMIT 1

-- name: deleted_inbox
-- Skips one that another server is deleting.
SELECT job_id FROM {db}.deleted_inboxes ORDER BY job_id LIMIT 1 FOR UPDATE SKIP LOCKED

-- name: delete_some_messages
DELETE FROM {db}.messages WHERE job_id = :job ORDER BY name, number LIMIT :limit

-- name: forget_inbox
DELETE FROM {db}.deleted_inboxes WHERE job_id = :job

-- name: deleted_queues
SELECT id FROM {db}.queues WHERE name IS NULL

-- name: jobs_of_queue
-- Returns no rows once all jobs are deleted: no jobs are added to a queue without a name.
SELECT id FROM {db}.jobs FORCE INDEX (jobs_in_order) WHERE queue_id = :queue LIMIT :limit

-- name: unlocked_jobs
-- Locks jobs, and returns the parent that has each among its children; skips those that another transaction has locked.
SELECT id, state, IF(state <= 1 OR is_cancelled = 2, parent_id, NULL), messages
FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids) FOR UPDATE SKIP LOCKED

-- name: purge_queue
DELETE FROM {db}.queues WHERE id = :queue

-- name: store_report
INSERT INTO {db}.reports (worker_id, reported_at, expires_at, report_bytes, report)
VALUES (:worker, :now, :expires_at, :bytes, :report)
ON DUPLICATE KEY UPDATE reported_at = :now, expires_at = :expires_at, report_bytes = :bytes, report = :report

-- name: delete_report
DELETE FROM {db}.reports WHERE worker_id = :worker

-- name: expired_reports
-- Limited, since there may be many.
SELECT worker_id FROM {db}.reports FORCE INDEX (reports_expiring) WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit

-- name: delete_expired_reports
-- By the primary key, as store_report locks the rows: with the other index, the two might deadlock.
DELETE FROM {db}.reports WHERE worker_id IN (:workers) AND expires_at <= :now

-- name: report_sizes
SELECT worker_id, report_bytes FROM {db}.reports FORCE INDEX (reports_expiring)
WHERE expires_at > :now ORDER BY expires_at DESC LIMIT :limit

-- name: reports
SELECT worker_id, report, reported_at FROM {db}.reports FORCE INDEX (PRIMARY) WHERE worker_id IN (:workers)

-- name: insert_results
-- call_results.py appends the rows. A key that exists already is a conflict.
INSERT INTO {db}.call_results (call_key, number, elsewhere, expires_at) VALUES

-- name: call_results
SELECT call_key, number, elsewhere, expires_at FROM {db}.call_results FORCE INDEX (PRIMARY) WHERE call_key IN (:keys)

-- name: lock_result
-- A number below 0 means that there is no result yet: this is the first execution of the call.
INSERT INTO {db}.call_results (call_key, number, expires_at) VALUES (:key, -1, :expires_at)
ON DUPLICATE KEY UPDATE number = number

-- name: update_result
UPDATE {db}.call_results SET number = :number WHERE call_key = :key

-- name: expired_results
SELECT call_key FROM {db}.call_results FORCE INDEX (call_results_expiring)
WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit

-- name: delete_expired_results
-- By the primary key, in the order in which insert_results locks the rows.
DELETE FROM {db}.call_results WHERE call_key IN (:keys) AND expires_at <= :now

-- name: store_listener
INSERT INTO {db}.listeners (listener, host, port, secret, expires_at)
VALUES (:listener, :host, :port, :secret, :expires_at)
ON DUPLICATE KEY UPDATE host = :host, port = :port, secret = :secret, expires_at = :expires_at

-- name: listeners
-- All of them, expired ones included: there is a row for each recent server process.
SELECT listener, host, port, secret, expires_at FROM {db}.listeners ORDER BY listener

-- name: delete_listeners
DELETE FROM {db}.listeners WHERE listener IN (:listeners) AND expires_at <= :now

-- name: lock_statistics
-- statistics.py appends rows and end. Locks rows in the order of their keys, and inserts those that are missing.
INSERT INTO {db}.statistics (resolution, start, kind, queue, name, counts) VALUES

-- name: locked_statistics
ON DUPLICATE KEY UPDATE counts = counts

-- name: stored_statistics
ON DUPLICATE KEY UPDATE counts = VALUES(counts)

-- name: statistics_to_change
-- For these queues, whatever the name.
SELECT queue, name, counts FROM {db}.statistics FORCE INDEX (PRIMARY)
WHERE resolution = :resolution AND start = :start AND kind = :kind AND queue IN (:queues)

-- name: statistics_of_all_queues
SELECT statistics.start, queue, name, counts
FROM JSON_TABLE('[:starts]', '$[*]' COLUMNS (start BIGINT PATH '$')) AS periods
STRAIGHT_JOIN {db}.statistics FORCE INDEX (PRIMARY)
ON resolution = :resolution AND statistics.start = periods.start AND kind = :kind
WHERE queue <> '' AND (:is_any OR name = :name) LIMIT :limit

-- name: statistics_of_queue
SELECT statistics.start, queue, name, counts
FROM JSON_TABLE('[:starts]', '$[*]' COLUMNS (start BIGINT PATH '$')) AS periods
STRAIGHT_JOIN {db}.statistics FORCE INDEX (PRIMARY)
ON resolution = :resolution AND statistics.start = periods.start AND kind = :kind AND queue = :queue
WHERE :is_any OR name = :name LIMIT :limit

-- name: first_statistics
-- When the first stored period begins.
SELECT start FROM {db}.statistics FORCE INDEX (PRIMARY) WHERE resolution = :resolution ORDER BY start LIMIT 1

-- name: forget_statistics
DELETE FROM {db}.statistics WHERE resolution = :resolution AND start < :before
ORDER BY resolution, start, kind, queue, name LIMIT :limit
