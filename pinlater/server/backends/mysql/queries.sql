-- Every statement that a MySQL shard runs. `{db}` is its database, `:name` a value: a number, a text, bytes, or a list
-- of numbers. Jobs that are addressed by id are found by it (FORCE INDEX), never by a walk along another index; changes
-- are made in the order of ids, so that transactions wait for each other rather than deadlock. A DELETE heeds no
-- FORCE INDEX while the table is small, or thought so: it walks along all jobs, and waits for those that others hold.
-- So ids are joined to it, in that order. A SELECT heeds it, but walks if the id is all that it needs.
-- A walk that locks also locks the index entries of the jobs it skips, and with them those who work on these jobs. So of
-- the entries of one job, those of one index only may be locked that way: of a job that is PENDING, in jobs_in_order, by
-- claims; of all others in jobs_by_moment, by the monitor. Other walks lock nothing, and leave that to what they do next.

-- name: begin
START TRANSACTION

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: clock
-- Sessions have no summer time (see connection.py), or this would be an hour off for an hour of each year.
SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS DOUBLE)

-- name: last_visit
-- Which server read the clock last, and how far the time that it goes by was ahead: both in milliseconds.
SELECT name, value FROM {db}.settings WHERE name IN ('time_ahead', 'time_seen')

-- name: keep_visit
INSERT INTO {db}.settings (name, value) VALUES ('time_ahead', :ahead), ('time_seen', :seen)
ON DUPLICATE KEY UPDATE value = VALUES(value)

-- name: schema_version
SELECT value FROM {db}.settings WHERE name = 'schema_version'

-- name: lock_version
-- A row that nobody else locks for longer than a moment.
SELECT value FROM {db}.settings WHERE name = 'schema_version' FOR UPDATE SKIP LOCKED

-- name: reserve_ids
-- A block of ids for one server; the statement's insert id is the block's end.
UPDATE {db}.settings SET value = LAST_INSERT_ID(value + :count) WHERE name = 'next_job_id'

-- name: queues
SELECT id, name FROM {db}.queues WHERE name IS NOT NULL

-- name: create_queue
INSERT INTO {db}.queues (name, created_at) VALUES (:name, :now) ON DUPLICATE KEY UPDATE id = id

-- name: delete_queue
-- Makes it nameless: nobody finds it any more, and the monitors remove its jobs bit by bit.
UPDATE {db}.queues SET name = NULL WHERE name = :name

-- name: queue_settings
SELECT name, is_paused, jobs_per_second, max_running FROM {db}.queues WHERE name IS NOT NULL

-- name: settings_of_queue
-- They are changed next.
SELECT is_paused, jobs_per_second, max_running FROM {db}.queues WHERE name = :name FOR UPDATE

-- name: change_queue_settings
UPDATE {db}.queues SET is_paused = :is_paused, jobs_per_second = :jobs_per_second, max_running = :max_running
WHERE name = :name

-- name: hold_queues
-- Those that are still there, and stay so until the transaction ends.
SELECT id FROM {db}.queues FORCE INDEX (PRIMARY) WHERE id IN (:queues) AND name IS NOT NULL LOCK IN SHARE MODE

-- name: enter_alone
-- Until the transaction ends, nobody else stores anything in these queues.
SELECT name FROM {db}.queues FORCE INDEX (PRIMARY) WHERE id IN (:queues) FOR UPDATE

-- name: insert_jobs
-- Completed by enqueue: rows follow.
INSERT INTO {db}.jobs (id, queue_id, state, priority, run_after, moment, created_at, updated_at, attempts_allowed,
                       attempts_remaining, body_bytes, unique_key, custom_status, body) VALUES

-- name: unique_jobs
-- The jobs that have these keys.
SELECT unique_key, priority, id FROM {db}.jobs FORCE INDEX (jobs_by_key)
WHERE queue_id = :queue AND unique_key IN (:keys)

-- name: stored_ids
-- Which of the batches whose fate is unknown were stored.
SELECT id FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids)

-- name: bucket
-- A queue's tokens are spent up to this moment, in epoch microseconds.
SELECT value FROM {db}.settings WHERE name = CONCAT('bucket of queue ', :queue)

-- name: make_bucket
-- A full one, if there is none.
INSERT INTO {db}.settings (name, value) VALUES (CONCAT('bucket of queue ', :queue), 0) ON DUPLICATE KEY UPDATE value = value

-- name: spend
-- Unless somebody else was quicker.
UPDATE {db}.settings SET value = :spent_until WHERE name = CONCAT('bucket of queue ', :queue) AND value = :was

-- name: queue_lock
-- Until when somebody has locked a queue, in epoch microseconds.
SELECT value FROM {db}.settings WHERE name = CONCAT('lock of queue ', :queue)

-- name: make_queue_lock
-- Makes the row of a queue that was never locked; it is locked by nobody.
INSERT INTO {db}.settings (name, value) VALUES (CONCAT('lock of queue ', :queue), 0) ON DUPLICATE KEY UPDATE value = value

-- name: change_queue_lock
-- Unless somebody else was quicker.
UPDATE {db}.settings SET value = :until WHERE name = CONCAT('lock of queue ', :queue) AND value = :was

-- name: forget_queue_lock
DELETE FROM {db}.settings WHERE name = CONCAT('lock of queue ', :queue)

-- name: forget_settings
DELETE FROM {db}.settings WHERE name IN (CONCAT('bucket of queue ', :queue), CONCAT('claims of queue ', :queue))

-- name: is_queue
SELECT 1 FROM {db}.queues WHERE id = :queue AND name IS NOT NULL

-- name: lock_claims
-- One claim at a time, also of several servers, where the number of running jobs is limited. Not by the queue's own row:
-- a server that stood still with that would keep all others from storing jobs. The row is changed, so that a cluster
-- whose nodes do not see each other's locks finds at the commit that two have claimed.
INSERT INTO {db}.settings (name, value) VALUES (CONCAT('claims of queue ', :queue), 0)
ON DUPLICATE KEY UPDATE value = value + 1

-- name: running_jobs
SELECT COUNT(*) FROM {db}.jobs FORCE INDEX (jobs_in_order) WHERE queue_id = :queue AND state = 1

-- name: first_pending
-- When the first job of a priority, from a run_after on, is due, or was.
SELECT run_after FROM {db}.jobs FORCE INDEX (jobs_in_order)
WHERE queue_id = :queue AND state = 0 AND priority = :priority AND run_after >= :floor
ORDER BY run_after LIMIT 1

-- name: size
-- What the tables of this shard take, as the database has it in memory. Its name is that in backticks, as text.
SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables
WHERE table_schema = '{db}'

-- name: first_due
-- When the first job of each priority is due, or was, in each of many queues.
SELECT queues.name, levels.priority, (
    SELECT run_after FROM {db}.jobs FORCE INDEX (jobs_in_order)
    WHERE queue_id = queues.id AND state = 0 AND jobs.priority = levels.priority
    ORDER BY run_after LIMIT 1
)
FROM {db}.queues FORCE INDEX (queues_by_name)
CROSS JOIN JSON_TABLE('[:levels]', '$[*]' COLUMNS (priority TINYINT PATH '$')) AS levels
WHERE queues.name IN (:names)

-- name: next_due
SELECT run_after FROM {db}.jobs FORCE INDEX (jobs_in_order)
WHERE queue_id = :queue AND state = 0 AND priority = :priority AND run_after > :now
ORDER BY run_after LIMIT 1

-- name: claimable_jobs
-- What a dequeue may claim, in order, from a run_after on, and nobody else may from now on.
SELECT id, body_bytes, attempts_allowed, attempts_remaining, created_at, run_after
FROM {db}.jobs FORCE INDEX (jobs_in_order)
WHERE queue_id = :queue AND state = 0 AND priority = :priority AND run_after BETWEEN :floor AND :now
ORDER BY run_after, id LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: peek_jobs
SELECT id, body_bytes, attempts_allowed, attempts_remaining, created_at, run_after
FROM {db}.jobs FORCE INDEX (jobs_in_order)
WHERE queue_id = :queue AND state = 0 AND priority = :priority AND run_after <= :now
ORDER BY run_after, id LIMIT :limit

-- name: claim_jobs
UPDATE {db}.jobs FORCE INDEX (PRIMARY)
SET state = 1, claim = :claim, moment = :expires, claim_lease = :lease, updated_at = :now
WHERE id IN (:ids) AND state = 0

-- name: bodies_of_jobs
SELECT id, body FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids)

-- name: succeed_jobs
-- Success acks of one claim and priority.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET state = 2, moment = :now, updated_at = :now, unique_key = NULL
WHERE id IN (:ids) AND state = 1 AND queue_id = :queue AND priority = :priority
  AND (:is_any OR claim = :claim)

-- name: succeed_job
-- One success ack with a status.
UPDATE {db}.jobs FORCE INDEX (PRIMARY)
SET state = 2, moment = :now, updated_at = :now, unique_key = NULL,
    custom_status = LEFT(CONCAT(custom_status, :status), 5000)
WHERE id IN (:ids) AND state = 1 AND queue_id = :queue AND priority = :priority
  AND (:is_any OR claim = :claim)

-- name: fail_jobs
-- Failure acks that are alike, of jobs with attempts left: PENDING at :retry_at, one attempt less, claim cleared.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET
    state = 0,
    run_after = :retry_at,
    claim = NULL,
    moment = NULL,
    updated_at = :now,
    custom_status = LEFT(CONCAT(custom_status, :status), 5000),
    attempts_remaining = attempts_remaining - 1
WHERE id IN (:ids) AND state = 1 AND queue_id = :queue AND priority = :priority
  AND (:is_any OR claim = :claim) AND attempts_remaining > 1

-- name: end_jobs
-- Failure acks that are alike and the last of their jobs, if :is_final whatever attempts are left: FAILED, claim kept.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET
    state = 3,
    moment = :now,
    unique_key = NULL,
    updated_at = :now,
    custom_status = LEFT(CONCAT(custom_status, :status), 5000),
    attempts_remaining = 0
WHERE id IN (:ids) AND state = 1 AND queue_id = :queue AND priority = :priority
  AND (:is_any OR claim = :claim) AND (:is_final OR attempts_remaining <= 1)

-- name: hold_jobs
-- All of them in the order of ids, before several statements change them, each in an order of its own.
SELECT state FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids) FOR UPDATE

-- name: claims_of_jobs
SELECT id, claim FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids) AND state = 1 AND queue_id = :queue

-- name: checkpoint_job
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET
    body_bytes = IF(:has_body, :body_bytes, body_bytes),
    body = IF(:has_body, :body, body),
    state = IF(:is_back, 0, 1),
    run_after = COALESCE(:run_after, run_after),
    attempts_allowed = COALESCE(:attempts, attempts_allowed),
    attempts_remaining = COALESCE(:attempts, attempts_remaining),
    claim = IF(:is_back, NULL, claim),
    moment = IF(:is_back, NULL, :now + claim_lease),
    updated_at = :now,
    custom_status = LEFT(CONCAT(:status, custom_status), 5000)
WHERE id = :id AND state = 1 AND queue_id = :queue AND priority = :priority AND claim = :claim

-- name: renew_jobs
-- Checkpoints that only show life, of one claim and priority.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET moment = :now + claim_lease, updated_at = :now
WHERE id IN (:ids) AND state = 1 AND queue_id = :queue AND priority = :priority AND claim = :claim

-- name: claims_of_queue
-- Every claim now held in a queue.
SELECT id, claim FROM {db}.jobs FORCE INDEX (jobs_in_order) WHERE queue_id = :queue AND state = 1

-- name: release_jobs
-- What one claim holds of the jobs.
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET state = 0, claim = NULL, moment = NULL, updated_at = :now
WHERE id IN (:ids) AND state = 1 AND queue_id = :queue AND claim = :claim

-- name: lookup_jobs
SELECT id, state, priority, attempts_allowed, attempts_remaining, custom_status, created_at, run_after, updated_at,
       claim, IF(:has_body, body, NULL), unique_key, queue_id
FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids)

-- name: count_jobs
-- Between two moments of run_after, both included, up to a cap.
SELECT COUNT(*) FROM (
    SELECT 1 FROM {db}.jobs FORCE INDEX (jobs_in_order)
    WHERE queue_id = :queue AND state = :state AND priority = :priority AND run_after BETWEEN :first AND :last
    LIMIT :cap
) AS counted

-- name: count_retried
-- PENDING jobs that were tried before, of the first :cap of a priority.
SELECT COUNT(*) FROM (
    SELECT attempts_remaining < attempts_allowed AS is_retry FROM {db}.jobs FORCE INDEX (jobs_in_order)
    WHERE queue_id = :queue AND state = :state AND priority = :priority AND run_after BETWEEN :first AND :last
    ORDER BY run_after, id LIMIT :cap
) AS waiting WHERE is_retry

-- name: scan_jobs
-- Latest run_after first, behind a position (:before_run_after, :before_id). Written so that the index narrows by it, also
-- among jobs of the same run_after: rows are not compared as a whole, since no index is used for that.
SELECT id, state, priority, attempts_allowed, attempts_remaining, custom_status, created_at, run_after, updated_at,
       claim, IF(:has_body, body, NULL), unique_key, queue_id
FROM {db}.jobs FORCE INDEX (jobs_in_order)
WHERE queue_id = :queue AND state = :state AND priority = :priority AND run_after >= :first
  AND (run_after < :before_run_after OR (run_after = :before_run_after AND id < :before_id))
ORDER BY run_after DESC, id DESC LIMIT :limit

-- name: failed_jobs
-- Those to retry, the oldest first, behind a position; see scan_jobs.
SELECT id, run_after FROM {db}.jobs FORCE INDEX (jobs_in_order)
WHERE queue_id = :queue AND state = 3 AND priority = :priority
  AND (run_after > :after_run_after OR (run_after = :after_run_after AND id > :after_id))
ORDER BY run_after, id LIMIT :limit

-- name: retry_jobs
UPDATE {db}.jobs FORCE INDEX (PRIMARY)
SET state = 0, attempts_remaining = :attempts, run_after = :run_after, moment = NULL, updated_at = :now
WHERE id IN (:ids) AND state = 3 AND queue_id = :queue AND priority = :priority

-- name: run_jobs_now
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET run_after = :now, updated_at = :now
WHERE id IN (:ids) AND state = 0 AND run_after > :now AND queue_id = :queue AND priority = :priority

-- name: delete_jobs
DELETE FROM {db}.jobs USING JSON_TABLE('[:ids]', '$[*]' COLUMNS (id BIGINT PATH '$')) AS doomed
STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = doomed.id
WHERE state = :state AND queue_id = :queue AND (:is_any OR priority = :priority)

-- name: expired_claims
-- Which nobody else is ending. While a server is younger than :quiet, claims whose lease is longer than its age are
-- spared.
SELECT id, queue_id, attempts_remaining FROM {db}.jobs FORCE INDEX (jobs_by_moment)
WHERE state = 1 AND moment <= :now AND (:age >= :quiet OR LEAST(claim_lease, :quiet) <= :age)
ORDER BY moment LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: expire_jobs
UPDATE {db}.jobs FORCE INDEX (PRIMARY) SET
    state = IF(attempts_remaining <= 1, 3, 0),
    run_after = IF(attempts_remaining <= 1, run_after, :now),
    claim = IF(attempts_remaining <= 1, claim, NULL),
    moment = IF(attempts_remaining <= 1, :now, NULL),
    unique_key = IF(attempts_remaining <= 1, NULL, unique_key),
    updated_at = :now,
    attempts_remaining = GREATEST(attempts_remaining - 1, 0)
WHERE id IN (:ids) AND state = 1

-- name: finished_jobs
-- Finished before a moment, and not being removed by somebody else.
SELECT id, queue_id FROM {db}.jobs FORCE INDEX (jobs_by_moment)
WHERE state = :state AND moment < :before
ORDER BY moment LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: remove_jobs
DELETE FROM {db}.jobs USING JSON_TABLE('[:ids]', '$[*]' COLUMNS (id BIGINT PATH '$')) AS doomed
STRAIGHT_JOIN {db}.jobs FORCE INDEX (PRIMARY) ON jobs.id = doomed.id

-- name: deleted_queues
SELECT id FROM {db}.queues WHERE name IS NULL

-- name: jobs_of_queue
-- None, when all are gone for good; nobody adds to a queue without a name.
SELECT id FROM {db}.jobs FORCE INDEX (jobs_in_order) WHERE queue_id = :queue LIMIT :limit

-- name: free_jobs
-- Which nobody else is changing, or may from now on.
SELECT id, state FROM {db}.jobs FORCE INDEX (PRIMARY) WHERE id IN (:ids) FOR UPDATE SKIP LOCKED

-- name: forget_queue
DELETE FROM {db}.queues WHERE id = :queue

-- name: keep_report
INSERT INTO {db}.reports (worker_id, reported_at, expires_at, report_bytes, report)
VALUES (:worker, :now, :expires_at, :bytes, :report)
ON DUPLICATE KEY UPDATE reported_at = :now, expires_at = :expires_at, report_bytes = :bytes, report = :report

-- name: forget_report
DELETE FROM {db}.reports WHERE worker_id = :worker

-- name: expired_reports
-- Not all at once, should there be many.
SELECT worker_id FROM {db}.reports FORCE INDEX (reports_expiring) WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit

-- name: forget_expired_reports
-- Along the primary key, as those that keep reports lock them: along the other index, both would wait for each other.
DELETE FROM {db}.reports WHERE worker_id IN (:workers) AND expires_at <= :now

-- name: sizes_of_reports
SELECT worker_id, report_bytes FROM {db}.reports FORCE INDEX (reports_expiring)
WHERE expires_at > :now ORDER BY expires_at DESC LIMIT :limit

-- name: reports
SELECT worker_id, report, reported_at FROM {db}.reports FORCE INDEX (PRIMARY) WHERE worker_id IN (:workers)

-- name: insert_results
-- Completed by call_results: rows follow. A key that is there already is a conflict.
INSERT INTO {db}.call_results (call_key, number, elsewhere, expires_at) VALUES

-- name: call_results
SELECT call_key, number, elsewhere, expires_at FROM {db}.call_results FORCE INDEX (PRIMARY) WHERE call_key IN (:keys)

-- name: hold_result
-- A number below 0 is none yet: the call is being carried out for the first time.
INSERT INTO {db}.call_results (call_key, number, expires_at) VALUES (:key, -1, :expires_at)
ON DUPLICATE KEY UPDATE number = number

-- name: count_result
UPDATE {db}.call_results SET number = :number WHERE call_key = :key

-- name: old_results
SELECT call_key FROM {db}.call_results FORCE INDEX (call_results_expiring)
WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit

-- name: forget_old_results_of
-- Along the primary key, as those that keep results lock them.
DELETE FROM {db}.call_results WHERE call_key IN (:keys) AND expires_at <= :now
