-- Every statement that the SQLite store runs. Parameters are numbered: unless a comment says otherwise, ?1 is the queue
-- id and ?2 is now. 4503599627370496 is WAITS_FOR_KEY_MS: a job with a key waits for it if its `run_after` is at least
-- that. `state` is compared with literals so that SQLite sees that a partial index applies; NOT INDEXED where jobs are
-- addressed by id, so that it never walks an index instead; unlikely() so that it narrows by `state = …` and not by the
-- `state >= 2` that only shows which index applies.

-- {record_columns} stands for the piece of that name.

-- name: record_columns
-- The columns of a record except the result: ?4 most bytes of the body.
-- substr() of an empty body is NULL.
id, state, priority, attempts_allowed, attempts_remaining, custom_status, created_at, run_after, updated_at,
       claim, iif(?4, coalesce(substr(body, 1, ?4), body), NULL), unique_key, job_key, key_limit, key_rate, is_cancelled, {parent}, waits_for, failure_group,
       run_ms

-- name: insert_jobs
-- Completed by queries.insert_jobs(): VALUES rows follow.
INSERT INTO jobs (id, queue_id, state, priority, run_after, created_at, updated_at,
                  attempts_allowed, attempts_remaining, custom_status, body)
VALUES

-- name: insert_keyed_jobs
-- Completed by queries.insert_keyed_jobs(). Separate from the one above, to spare most jobs parameters for NULL.
INSERT INTO jobs (id, queue_id, state, priority, run_after, created_at, updated_at,
                  attempts_allowed, attempts_remaining, custom_status, body, unique_key, job_key, key_limit,
                  key_rate)
VALUES

-- name: insert_claimed_job
-- A job for a waiting dequeue: ?3 id, ?4 priority, ?5 attempts, ?6 status, ?7 body, ?8 claim, ?9 expires, ?10 lease.
INSERT INTO jobs (id, queue_id, state, priority, run_after, created_at, updated_at,
                  attempts_allowed, attempts_remaining, custom_status, body, claim, claim_expires, claim_lease)
VALUES (?3, ?1, 1, ?4, ?2, ?2, ?2, ?5, ?5, ?6, ?7, ?8, ?9, ?10)

-- name: import_job
-- A job with its history: ?2 id, ?3 state, ?4 priority, ?5 run after, ?6 created at, ?7 updated at, ?8 attempts
-- allowed, ?9 attempts remaining, ?10 status, ?11 body, ?12 unique key, ?13 key, ?14 its limit, ?15 result,
-- ?16 is cancelled, ?17 failure group, ?18 run time or NULL, ?19 rate of its key.
INSERT INTO jobs (queue_id, id, state, priority, run_after, created_at, updated_at,
                  attempts_allowed, attempts_remaining, custom_status, body, unique_key, job_key, key_limit,
                  result, is_cancelled, failure_group, run_ms, key_rate)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)

-- name: unique_jobs
-- The jobs that have these unique keys: ?2 keys as a JSON list. A job that was ever claimed has a lease.
SELECT jobs.unique_key, jobs.priority, jobs.id, jobs.created_at, jobs.claim_lease IS NOT NULL
FROM json_each(?2) CROSS JOIN jobs INDEXED BY jobs_unique
ON jobs.queue_id = ?1 AND jobs.unique_key = json_each.value

-- name: unique_periods
-- Those of these unique keys whose period is not over: ?2 keys as a JSON list, ?3 now.
SELECT unique_periods.unique_key, unique_periods.priority, unique_periods.job_id
FROM json_each(?2) CROSS JOIN unique_periods
ON unique_periods.queue_id = ?1 AND unique_periods.unique_key = json_each.value AND unique_periods.ends_at > ?3

-- name: keep_period
-- ?2 key, ?3 priority, ?4 id, ?5 ends at.
INSERT OR REPLACE INTO unique_periods (queue_id, unique_key, priority, job_id, ends_at) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: end_periods
-- The periods of jobs that are going to be deleted, or are cancelled, before they finish: ?2 ids as a JSON list,
-- ?3 state.
DELETE FROM unique_periods WHERE (queue_id, unique_key) IN (
    SELECT jobs.queue_id, jobs.unique_key FROM json_each(?2) CROSS JOIN jobs NOT INDEXED ON jobs.id = value
    WHERE jobs.state = ?3 AND jobs.queue_id = ?1 AND jobs.unique_key IS NOT NULL
)

-- name: forget_periods
-- ?1 now, ?2 limit.
DELETE FROM unique_periods WHERE (queue_id, unique_key) IN (
    SELECT queue_id, unique_key FROM unique_periods INDEXED BY unique_periods_ending
    WHERE ends_at <= ?1 ORDER BY ends_at LIMIT ?2
)

-- name: replace_job
-- A job that was never claimed: ?1 id, ?2 now, ?3 body, ?4 attempts, ?5 status, ?6 run after or NULL. One that waits for
-- an ordered key is put off, but not moved ahead of others.
UPDATE jobs NOT INDEXED SET body = ?3, attempts_allowed = ?4, attempts_remaining = ?4, custom_status = ?5,
    run_after = coalesce(iif(run_after >= 4503599627370496 AND job_key IS NOT NULL,
        iif(key_limit IS 0, max(run_after, ?6 + 4503599627370496), ?6 + 4503599627370496), ?6), run_after),
    updated_at = ?2, failure_group = NULL
WHERE id = ?1 AND state = 0

-- name: free_keys
-- Started jobs give up their unique keys: ?1 ids as a JSON list.
UPDATE jobs NOT INDEXED SET unique_key = NULL WHERE id IN (SELECT value FROM json_each(?1))

-- name: queue_traits
SELECT id, has_keys, has_parents, has_messages, has_cancelled,
    EXISTS (SELECT 1 FROM key_rates WHERE queue_id = queues.id) FROM queues

-- name: mark_has_keys
UPDATE queues SET has_keys = 1 WHERE id = ?1 AND NOT has_keys

-- name: mark_has_parents
UPDATE queues SET has_parents = 1 WHERE id = ?1 AND NOT has_parents

-- name: mark_has_messages
UPDATE queues SET has_messages = 1 WHERE id = ?1 AND NOT has_messages

-- name: mark_has_cancelled
UPDATE queues SET has_cancelled = 1 WHERE id = ?1 AND NOT has_cancelled

-- name: keys_of_jobs
-- The queues and keys of jobs: ?1 ids as a JSON list.
SELECT DISTINCT jobs.queue_id, jobs.job_key FROM json_each(?1) CROSS JOIN jobs NOT INDEXED ON jobs.id = value
WHERE jobs.job_key IS NOT NULL

-- name: waiting_for_key
-- The first jobs that wait for a key, with the time at which they are due: ?2 key, ?3 limit.
SELECT id, run_after - 4503599627370496, key_limit FROM jobs INDEXED BY jobs_keyed
WHERE job_key IS NOT NULL AND state <= 1 AND queue_id = ?1 AND job_key = ?2 AND unlikely(state = 0) AND run_after >= 4503599627370496
ORDER BY run_after, id LIMIT ?3

-- name: last_of_key
-- The largest `run_after` of the PENDING jobs of a key: ?2 key.
SELECT max(run_after) FROM jobs INDEXED BY jobs_keyed
WHERE job_key IS NOT NULL AND state <= 1 AND queue_id = ?1 AND job_key = ?2 AND unlikely(state = 0)

-- name: running_of_key
-- How many jobs are claimed: ?2 key.
SELECT count(*) FROM jobs INDEXED BY jobs_keyed
WHERE job_key IS NOT NULL AND state <= 1 AND queue_id = ?1 AND job_key = ?2 AND unlikely(state = 1)

-- name: states_of_keys
-- For those of several keys for which jobs wait, as one JSON list: the key, the first of these jobs with the times at
-- which they are due, how many are let through and not claimed, and those of them that are not due yet. ?3 keys as a
-- JSON list, ?4 limit.
SELECT json_group_array(json_array(
    asked.value,
    json((
        SELECT json_group_array(json_array(id, run_after - 4503599627370496, key_limit)) FROM (
            SELECT id, run_after, key_limit FROM jobs INDEXED BY jobs_keyed
            WHERE job_key IS NOT NULL AND state <= 1 AND queue_id = ?1 AND job_key = asked.value
              AND unlikely(state = 0) AND run_after >= 4503599627370496
            ORDER BY run_after, id LIMIT ?4
        )
    )),
    (
        SELECT count(*) FROM jobs INDEXED BY jobs_keyed
        WHERE job_key IS NOT NULL AND state <= 1 AND queue_id = ?1 AND job_key = asked.value
          AND unlikely(state = 0) AND run_after < 4503599627370496
    ),
    json((
        SELECT json_group_array(json_array(id, run_after, key_limit)) FROM jobs INDEXED BY jobs_keyed
        WHERE job_key IS NOT NULL AND state <= 1 AND queue_id = ?1 AND job_key = asked.value
          AND unlikely(state = 0) AND run_after > ?2 AND run_after < 4503599627370496
    ))
)) FROM json_each(?3) AS asked
WHERE EXISTS (
    SELECT 1 FROM jobs INDEXED BY jobs_keyed
    WHERE job_key IS NOT NULL AND state <= 1 AND queue_id = ?1 AND job_key = asked.value
      AND unlikely(state = 0) AND run_after >= 4503599627370496
)

-- name: running_of_keys
-- How many jobs of each key are claimed, as a JSON list in the order of the keys: ?2 keys as a JSON list.
SELECT json_group_array((
    SELECT count(*) FROM jobs INDEXED BY jobs_keyed
    WHERE job_key IS NOT NULL AND state <= 1 AND queue_id = ?1 AND job_key = asked.value AND unlikely(state = 1)
)) FROM json_each(?2) AS asked

-- name: jobs_through_of_key
-- The first that are let through and not claimed: ?2 key, ?3 limit.
SELECT id, run_after, key_limit FROM jobs INDEXED BY jobs_keyed
WHERE job_key IS NOT NULL AND state <= 1 AND queue_id = ?1 AND job_key = ?2 AND unlikely(state = 0)
  AND run_after < 4503599627370496
ORDER BY run_after, id LIMIT ?3

-- name: rate_of_key
-- ?2 key.
SELECT rate, next_us FROM key_rates WHERE queue_id = ?1 AND job_key = ?2

-- name: set_rate_of_key
-- ?2 key, ?3 rate, ?4 next start.
REPLACE INTO key_rates (queue_id, job_key, rate, next_us) VALUES (?1, ?2, ?3, ?4)

-- name: started_of_keys
-- The keys with a rate of some jobs, and how many of these each has: ?2 ids as a JSON list.
SELECT key_rates.job_key, rate, next_us, count(*)
FROM json_each(?2) CROSS JOIN jobs NOT INDEXED ON jobs.id = value
CROSS JOIN key_rates ON key_rates.queue_id = ?1 AND key_rates.job_key = jobs.job_key
GROUP BY key_rates.job_key

-- name: keep_rates_of_jobs
-- Only of jobs that are PENDING: ?2 ids as a JSON list.
INSERT OR IGNORE INTO key_rates (queue_id, job_key, rate, next_us)
SELECT jobs.queue_id, jobs.job_key, jobs.key_rate, 0 FROM json_each(?2) CROSS JOIN jobs NOT INDEXED ON jobs.id = value
WHERE jobs.queue_id = ?1 AND jobs.key_rate IS NOT NULL AND jobs.state = 0

-- name: idle_rates
-- Those whose next start at an even pace was before ?1, and whether the key has unfinished jobs: ?2 limit.
SELECT queue_id, job_key, EXISTS (
    SELECT 1 FROM jobs INDEXED BY jobs_keyed
    WHERE job_key IS NOT NULL AND state <= 1 AND queue_id = key_rates.queue_id AND job_key = key_rates.job_key)
FROM key_rates INDEXED BY key_rates_in_order WHERE next_us < ?1 ORDER BY next_us LIMIT ?2

-- name: touch_rate_of_key
-- ?2 key, ?3 next start.
UPDATE key_rates SET next_us = ?3 WHERE queue_id = ?1 AND job_key = ?2

-- name: forget_rate_of_key
-- ?2 key.
DELETE FROM key_rates WHERE queue_id = ?1 AND job_key = ?2

-- name: set_run_after
-- ?1 id, ?2 run after.
UPDATE jobs NOT INDEXED SET run_after = ?2 WHERE id = ?1 AND state = 0

-- name: claimable_jobs
-- The jobs that a dequeue may claim, in order, as one row of JSON lists, since Python releases its interpreter lock and
-- takes it back for each row that it fetches. ?3 priority, ?4 limit.
SELECT '[' || group_concat(id) || ']', '[' || group_concat(length(body)) || ']',
       '[' || group_concat(attempts_allowed) || ']', '[' || group_concat(attempts_remaining) || ']',
       '[' || group_concat(created_at) || ']', '[' || group_concat(run_after) || ']'
FROM (
    SELECT id, body, attempts_allowed, attempts_remaining, created_at, run_after FROM jobs
    WHERE state = 0 AND queue_id = ?1 AND priority = ?3 AND run_after <= ?2
    ORDER BY run_after, id LIMIT ?4
)

-- name: claimed_of_queue
-- How many jobs are claimed: a walk over the claims of all queues, made only for queues with a limit of running jobs.
SELECT count(*) FROM jobs INDEXED BY jobs_claimed WHERE state = 1 AND queue_id = ?1

-- name: claim_jobs
-- Those that fit into the answer: ?1 now, ?2 claim, ?3 expires, ?4 lease, ?5 ids as a JSON list.
UPDATE jobs NOT INDEXED
SET state = 1, claim = ?2, claim_expires = ?3, claim_lease = ?4, updated_at = ?1, waits_for = NULL
WHERE id IN (SELECT value FROM json_each(?5))

-- name: claim_jobs_of_many
-- The same for several dequeues: ?1 now, ?2 claims of jobs as a JSON list of [id, claim, lease].
UPDATE jobs NOT INDEXED
SET state = 1, claim = wanted.claim, claim_expires = ?1 + wanted.lease, claim_lease = wanted.lease, updated_at = ?1,
    waits_for = NULL
FROM (
    SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS claim, json_extract(value, '$[2]') AS lease
    FROM json_each(?2)
) AS wanted
WHERE jobs.id = wanted.id

-- name: bodies_of_jobs
-- All bodies joined, in the order of the ids: ?1 ids as a JSON list.
SELECT CAST(group_concat(body, '') AS BLOB) FROM json_each(?1) CROSS JOIN jobs NOT INDEXED ON jobs.id = value

-- name: first_pending
-- When the first PENDING job of a queue falls or fell due: ?2 priorities as a JSON list.
SELECT min(due) FROM (
    SELECT (
        SELECT run_after FROM jobs INDEXED BY jobs_pending
        WHERE state = 0 AND queue_id = ?1 AND priority = levels.value
        ORDER BY run_after LIMIT 1
    ) AS due FROM json_each(?2) AS levels
)

-- name: first_due
-- When the first job of each queue falls due, as a JSON list of ids and times: ?1 ids of queues, ?2 all priorities, as
-- JSON lists. One statement with one row, since a thread has to wait for the interpreter lock for each of them.
SELECT json_group_array(json_array(asked.value, (
    SELECT min(due) FROM (
        SELECT (
            SELECT run_after FROM jobs INDEXED BY jobs_pending
            WHERE state = 0 AND queue_id = asked.value AND priority = levels.value
            ORDER BY run_after LIMIT 1
        ) AS due FROM json_each(?2) AS levels
    )
))) FROM json_each(?1) AS asked

-- name: succeed_jobs
-- Success acks of one claim and priority: ?3 claim or NULL for any, ?4 priority, ?5 ids as a JSON list.
UPDATE jobs NOT INDEXED SET state = 2, updated_at = ?2, claim_expires = NULL, unique_key = NULL, is_cancelled = 0,
                failure_group = NULL
WHERE id IN (SELECT value FROM json_each(?5))
  AND state = 1 AND queue_id = ?1 AND priority = ?4 AND (?3 IS NULL OR claim = ?3)

-- name: succeed_job
-- One success ack with a status: ?3 id, ?4 claim or NULL, ?5 priority, ?6 status, ?7 result.
UPDATE jobs NOT INDEXED SET state = 2, updated_at = ?2, claim_expires = NULL, unique_key = NULL, is_cancelled = 0,
                failure_group = NULL,
                custom_status = substr(custom_status || ?6, 1, 5000), result = ?7
WHERE id = ?3 AND state = 1 AND queue_id = ?1 AND priority = ?5 AND (?4 IS NULL OR claim = ?4)

-- name: claims_of_jobs
-- Who holds jobs, as one JSON list of [id, priority, claim]: ?2 ids as a JSON list.
SELECT json_group_array(json_array(jobs.id, priority, claim))
FROM json_each(?2) CROSS JOIN jobs NOT INDEXED ON jobs.id = value
WHERE state = 1 AND queue_id = ?1

-- name: holders_of_jobs
-- The same as rows, so that claims may have any characters; for failure acks, which take a statement each anyway.
SELECT jobs.id, priority, claim FROM json_each(?2) CROSS JOIN jobs NOT INDEXED ON jobs.id = value
WHERE state = 1 AND queue_id = ?1

-- name: succeed_held_jobs
-- Success acks whose claims were already checked: ?1 now, ?2 ids as a JSON list.
UPDATE jobs NOT INDEXED SET state = 2, updated_at = ?1, claim_expires = NULL, unique_key = NULL, is_cancelled = 0,
                failure_group = NULL
WHERE id IN (SELECT value FROM json_each(?2))

-- name: succeed_jobs_with_results
-- Success acks with results, of one claim and priority: ?3 JSON map of id -> start of its result times 2^31 plus length
-- of its result, ?4 claim or NULL for any, ?5 priority or NULL for any, ?6 all results.
UPDATE jobs NOT INDEXED SET state = 2, updated_at = ?2, claim_expires = NULL, unique_key = NULL, is_cancelled = 0,
                failure_group = NULL,
                result = substr(?6, wanted.start, wanted.size)
FROM (
    SELECT CAST(key AS INTEGER) AS id, value >> 31 AS start, value & 2147483647 AS size FROM json_each(?3)
) AS wanted
WHERE jobs.id = wanted.id
  AND state = 1 AND queue_id = ?1 AND (?5 IS NULL OR priority = ?5) AND (?4 IS NULL OR claim = ?4)

-- name: keep_run_times
-- For jobs that have succeeded in this transaction: ?3 JSON list of [id, milliseconds, claim or null for any].
UPDATE jobs NOT INDEXED SET run_ms = wanted.run_ms
FROM (
    SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS run_ms, json_extract(value, '$[2]') AS claim
    FROM json_each(?3)
) AS wanted
WHERE jobs.id = wanted.id
  AND state = 2 AND queue_id = ?1 AND updated_at = ?2 AND (wanted.claim IS NULL OR jobs.claim = wanted.claim)

-- name: fail_job
-- One failure ack of a job with attempts left: PENDING at ?7, one attempt less, claim cleared. ?3 id, ?4 claim or NULL,
-- ?5 priority, ?6 status, ?8 failure group.
UPDATE jobs NOT INDEXED SET
    state = 0,
    run_after = iif(job_key IS NULL, ?7, min(?7, 4503599627370496 - 1)),
    claim = NULL,
    attempts_remaining = attempts_remaining - 1,
    claim_expires = NULL,
    updated_at = ?2,
    custom_status = substr(custom_status || ?6, 1, 5000),
    failure_group = iif(is_cancelled, NULL, ?8)
WHERE id = ?3 AND state = 1 AND queue_id = ?1 AND priority = ?5 AND (?4 IS NULL OR claim = ?4)
  AND attempts_remaining > 1 AND NOT {is_to_end}

-- name: end_job
-- One failure ack of a job on its last attempt, or with ?7 of any job: FAILED, claim kept, unique key cleared. ?3 id,
-- ?4 claim or NULL, ?5 priority, ?6 status, ?7 whether final, ?8 whether it was cancelled, ?9 failure group.
UPDATE jobs NOT INDEXED SET
    state = 3,
    unique_key = NULL,
    attempts_remaining = 0,
    claim_expires = NULL,
    updated_at = ?2,
    custom_status = substr(custom_status || ?6, 1, 5000),
    is_cancelled = max(is_cancelled, ?8),
    failure_group = iif(is_cancelled OR ?8, NULL, ?9)
WHERE id = ?3 AND state = 1 AND queue_id = ?1 AND priority = ?5 AND (?4 IS NULL OR claim = ?4)
  AND (?7 OR attempts_remaining <= 1 OR {is_to_end})

-- name: claim_of_job
-- Who holds a job: ?2 id, ?3 priority.
SELECT claim FROM jobs NOT INDEXED WHERE id = ?2 AND state = 1 AND queue_id = ?1 AND priority = ?3

-- name: checkpoint_job
-- The claim was already checked: ?3 id, ?4 body or NULL, ?5 whether back to PENDING, ?6 run after or NULL, ?7 attempts
-- or NULL, ?8 status to prepend, ?9 its waits or NULL. Instead of going back to PENDING, a job that is asked to stop
-- becomes FAILED if it has nothing to undo according to the new body, or is due at once if it does not undo it yet.
UPDATE jobs NOT INDEXED SET
    body = coalesce(?4, body),
    state = iif(?5, iif({is_to_end_then}, 3, 0), 1),
    run_after = iif(?5 AND {is_due_at_once_then}, run_after,
        iif(job_key IS NULL, coalesce(?6, run_after), min(coalesce(?6, run_after), 4503599627370496 - 1))),
    attempts_allowed = coalesce(?7, attempts_allowed),
    attempts_remaining = coalesce(?7, attempts_remaining),
    claim = iif(?5 AND NOT {is_to_end_then}, NULL, claim),
    claim_expires = iif(?5, NULL, ?2 + claim_lease),
    updated_at = ?2,
    custom_status = iif(?5 AND ?7 = attempts_allowed AND length(?8 || custom_status) > 1600,
        substr(?8 || custom_status, 1, 1598) || char(8230, 10), substr(?8 || custom_status, 1, 5000)),
    unique_key = iif(?5 AND {is_to_end_then}, NULL, unique_key),
    waits_for = iif(is_cancelled, NULL, ?9),
    failure_group = iif(is_cancelled OR ?7 IS NOT NULL, NULL, failure_group)
WHERE id = ?3 AND state = 1 AND queue_id = ?1

-- name: renew_jobs
-- Checkpoints of one claim that only renew leases: ?3 ids as a JSON list, ?4 claim, ?5 priority.
UPDATE jobs NOT INDEXED SET claim_expires = ?2 + claim_lease, updated_at = ?2
WHERE id IN (SELECT value FROM json_each(?3))
  AND state = 1 AND queue_id = ?1 AND priority = ?5 AND claim = ?4

-- name: claims_of_queue
-- All present claims of a queue, by a walk over the claims of all queues.
SELECT id, claim FROM jobs INDEXED BY jobs_claimed WHERE state = 1 AND queue_id = ?1

-- name: release_jobs
-- ?3 ids as a JSON list.
UPDATE jobs NOT INDEXED SET
    state = iif({is_to_end}, 3, 0),
    claim = iif({is_to_end}, claim, NULL),
    claim_expires = NULL,
    updated_at = ?2,
    unique_key = iif({is_to_end}, NULL, unique_key),
    failure_group = iif(is_cancelled, NULL, failure_group)
WHERE id IN (SELECT value FROM json_each(?3)) AND state = 1 AND queue_id = ?1

-- name: asked_of_queue
-- Which of these claimed jobs are asked to stop, and their claims: ?2 ids as a JSON list.
SELECT jobs.id, jobs.claim FROM json_each(?2) CROSS JOIN jobs NOT INDEXED ON jobs.id = value
WHERE jobs.state = 1 AND jobs.queue_id = ?1 AND jobs.is_cancelled

-- name: lookup_job
-- ?2 id, ?3 priority, ?4 most bytes of the body, ?5 whether to return the result.
SELECT {record_columns}, iif(?5, result, NULL)
FROM jobs NOT INDEXED WHERE id = ?2 AND queue_id = ?1 AND priority = ?3

-- name: count_pending
-- ?2 priority, ?3 and ?4 bounds of run_after, both included, ?5 cap.
SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_pending
    WHERE state = 0 AND queue_id = ?1 AND priority = ?2 AND run_after >= ?3 AND run_after <= ?4 LIMIT ?5)

-- name: count_retrying
-- PENDING jobs whose last attempt failed; parameters as above.
SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_retrying
    WHERE failure_group IS NOT NULL AND state = 0 AND queue_id = ?1 AND priority = ?2
      AND run_after >= ?3 AND run_after <= ?4 LIMIT ?5)

-- name: count_failing
-- Jobs of a failure group, of all priorities: ?6 state, ?7 group; the others as above.
SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_by_failure
    WHERE failure_group IS NOT NULL AND state IN (0, 3) AND queue_id = ?1 AND failure_group = ?7
      AND unlikely(state = ?6) AND run_after >= ?3 AND run_after <= ?4 LIMIT ?5)

-- name: count_claimed
SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_claimed
    WHERE state = 1 AND queue_id = ?1 AND priority = ?2 AND run_after >= ?3 AND run_after <= ?4 LIMIT ?5)

-- name: count_finished
-- ?6 state.
SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_finished
    WHERE state >= 2 AND unlikely(state = ?6) AND queue_id = ?1 AND priority = ?2 AND run_after >= ?3 AND run_after <= ?4 LIMIT ?5)

-- name: scan
-- Completed by queries.py: which jobs, by which index, and in which order. ?2 priority, ?3 the last run_after, ?4 most
-- bytes of the body, ?5 and ?6 the position (run_after, id) behind which to continue, ?7 limit, ?8 state, ?9 failure
-- group or key. A separate part finds those with the same run_after, since no index narrows by both at once.
SELECT {record_columns}, NULL
FROM jobs INDEXED BY {index}
WHERE {which} AND queue_id = ?1 AND run_after = ?5 AND ?5 {within} ?3 AND id {behind} ?6
UNION ALL
SELECT {record_columns}, NULL
FROM jobs INDEXED BY {index}
WHERE {which} AND queue_id = ?1 AND run_after {within} ?3 AND run_after {behind} ?5
{besides}
ORDER BY run_after {order}, id {order} LIMIT ?7

-- name: scan_unique
-- The job with the unique key ?9, unless it also has that as its shared key.
SELECT {record_columns}, NULL
FROM jobs INDEXED BY jobs_unique
WHERE unique_key IS NOT NULL AND queue_id = ?1 AND unique_key = ?9 AND state = ?8 AND job_key IS NOT ?9
  AND (run_after {behind} ?5 OR run_after = ?5 AND id {behind} ?6)

-- name: failed_jobs
-- The jobs to retry: ?2 priority, ?3 limit.
SELECT id FROM jobs INDEXED BY jobs_finished
WHERE state >= 2 AND unlikely(state = 3) AND queue_id = ?1 AND priority = ?2
ORDER BY run_after, id LIMIT ?3

-- name: retry_jobs
-- ?3 ids as a JSON list, ?4 attempts, ?5 run after.
UPDATE jobs NOT INDEXED SET state = 0, attempts_remaining = ?4, updated_at = ?2, is_cancelled = 0, failure_group = NULL,
    run_after = iif(job_key IS NULL, ?5, min(?5, 4503599627370496 - 1) + 4503599627370496)
WHERE id IN (SELECT value FROM json_each(?3)) AND state = 3

-- name: states_of_jobs
-- ?2 ids as a JSON list.
SELECT jobs.id, priority, state, is_cancelled FROM json_each(?2) CROSS JOIN jobs NOT INDEXED ON jobs.id = value
WHERE queue_id = ?1

-- name: jobs_to_cancel
-- Including whether they are PENDING and have something to undo, and whether they may have children to cancel: ?2 ids
-- as a JSON list.
SELECT jobs.id, priority, state, is_cancelled, state = 0 AND {has_to_undo}, is_cancelled = 2 OR EXISTS (
    SELECT 1 FROM families INDEXED BY families_open WHERE families.parent_id = jobs.id AND is_open
) OR EXISTS (
    SELECT 1 FROM jobs AS child INDEXED BY jobs_cancelled_with_children
    WHERE child.parent_id = jobs.id AND child.is_cancelled = 2)
FROM json_each(?2) CROSS JOIN jobs NOT INDEXED ON jobs.id = value
WHERE queue_id = ?1

-- name: cancel_pending
-- Not due later, since counts and scans would take the job for a future one: ?1 now, ?2 ids as a JSON list, ?3 status.
UPDATE jobs NOT INDEXED SET
    state = 3,
    is_cancelled = 1,
    failure_group = NULL,
    unique_key = NULL,
    waits_for = NULL,
    run_after = min(
        run_after - iif(run_after >= 4503599627370496 AND job_key IS NOT NULL, 4503599627370496, 0), ?1),
    updated_at = ?1,
    custom_status = substr(custom_status || ?3, 1, 5000)
WHERE id IN (SELECT value FROM json_each(?2))

-- name: ask_to_stop
-- ?1 now, ?2 ids as a JSON list, ?3 status.
UPDATE jobs NOT INDEXED SET is_cancelled = 1, failure_group = NULL, updated_at = ?1,
    custom_status = substr(custom_status || ?3, 1, 5000)
WHERE id IN (SELECT value FROM json_each(?2))

-- name: mark_with_children
-- Cancelled jobs that are still among the children of their parents: ?1 ids as a JSON list.
UPDATE jobs NOT INDEXED SET is_cancelled = 2, parent_id = (SELECT parent_id FROM families WHERE last_id = {family_of_job})
WHERE id IN (SELECT value FROM json_each(?1))
  AND EXISTS (SELECT 1 FROM families WHERE last_id = {family_of_job} AND first_id <= jobs.id)

-- name: finish_cancellation
-- ?2 ids as a JSON list.
UPDATE jobs NOT INDEXED SET is_cancelled = 1
WHERE id IN (SELECT value FROM json_each(?2)) AND is_cancelled = 2 AND queue_id = ?1

-- name: parent_to_be
-- Whether a job may get children: ?1 queue, ?2 id, ?3 priority.
SELECT 1 FROM jobs NOT INDEXED JOIN queues ON queues.id = jobs.queue_id
WHERE jobs.id = ?2 AND jobs.priority = ?3 AND queues.name = ?1 AND jobs.state <= 1 AND jobs.is_cancelled = 0

-- name: told_by_jobs
-- What jobs report to their parents: ?2 ids as a JSON list, ?3 and ?4 the smallest and the largest state, ?5 when they
-- have changed or NULL for any time.
SELECT last_id, families.parent_id, name, position + jobs.id - first_id, state, is_cancelled, result,
       iif(state = 2, '', custom_status)
FROM json_each(?2) CROSS JOIN jobs NOT INDEXED ON jobs.id = value
CROSS JOIN families ON last_id = {family_of_job} AND first_id <= jobs.id
WHERE state >= ?3 AND state <= ?4 AND queue_id = ?1 AND (?5 IS NULL OR updated_at = ?5)

-- name: refresh_families
-- Whether any of the jobs of families are unfinished: ?1 ids of jobs, one or more of each family, as a JSON list.
UPDATE families SET is_open = NOT is_open
WHERE last_id IN (SELECT {family_of_value} FROM json_each(?1)) AND is_open <> {has_unfinished}

-- name: refresh_family
-- The same for one: ?1 id of one of its jobs.
UPDATE families SET is_open = NOT is_open WHERE last_id = {family_of_given} AND is_open <> {has_unfinished}

-- name: forget_families
-- Those of which all jobs are deleted: ?1 ids of deleted jobs, as a JSON list.
DELETE FROM families
WHERE last_id IN (SELECT {family_of_value} FROM json_each(?1))
  AND NOT EXISTS (SELECT 1 FROM jobs NOT INDEXED WHERE id BETWEEN first_id AND last_id)

-- name: receivers
-- Jobs that can get messages: ?1 ids as a JSON list, ?2 the last of their states.
SELECT jobs.id, jobs.queue_id, jobs.priority, jobs.waits_for
FROM json_each(?1) CROSS JOIN jobs NOT INDEXED ON jobs.id = value
WHERE jobs.state <> 2 AND jobs.state <= ?2

-- name: store_family
-- ?1 last id, ?2 first id, ?3 id of the parent, ?4 its descriptor, ?5 name of the messages, ?6 position of the first.
INSERT INTO families (last_id, first_id, parent_id, parent, name, position) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: children_to_cancel
-- ?1 ids of parents as a JSON list, ?2 limit.
SELECT queues.name, jobs.priority, jobs.id
FROM json_each(?1) CROSS JOIN families INDEXED BY families_open ON families.parent_id = value
CROSS JOIN jobs NOT INDEXED ON jobs.id BETWEEN first_id AND last_id
CROSS JOIN queues ON queues.id = jobs.queue_id
WHERE is_open AND jobs.state <= 1 AND jobs.is_cancelled = 0 AND queues.name IS NOT NULL
UNION ALL
SELECT queues.name, jobs.priority, jobs.id
FROM json_each(?1) CROSS JOIN jobs INDEXED BY jobs_cancelled_with_children ON jobs.parent_id = value
CROSS JOIN queues ON queues.id = jobs.queue_id
WHERE jobs.is_cancelled = 2 AND queues.name IS NOT NULL
LIMIT ?2

-- name: known_messages
-- Which of these are stored: ?1 JSON list of [job, name, id].
SELECT messages.job_id, messages.name, messages.id FROM json_each(?1) CROSS JOIN messages
ON messages.sizes IS NULL AND messages.job_id = json_extract(value, '$[0]')
  AND messages.name = json_extract(value, '$[1]') AND messages.id = json_extract(value, '$[2]')

-- name: store_messages
-- ?1 JSON list of [job, name, id, number, kind, start of the payload, length of the payload], ?2 all payloads.
INSERT INTO messages (job_id, name, id, number, kind, payload)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
       json_extract(value, '$[3]'), json_extract(value, '$[4]'),
       substr(?2, json_extract(value, '$[5]'), json_extract(value, '$[6]'))
FROM json_each(?1)

-- name: store_successes
-- Messages of children that have succeeded, in one row: ?1 job, ?2 name, ?3 number of the last one, ?4 ids, ?5 payloads,
-- ?6 sizes.
INSERT INTO messages (job_id, name, number, id, kind, payload, sizes) VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6)

-- name: newest_successes
-- The ids of the newest messages of children that have succeeded, row by row: ?1 job, ?2 name. A millisecond has fewer.
-- The kind is stored before the payload, which is then not read.
SELECT id FROM messages WHERE job_id = ?1 AND name = ?2 AND kind = 1 ORDER BY number DESC LIMIT 50

-- name: has_single_messages
-- Whether a message is in a row of its own: ?1 job, ?2 name.
SELECT 1 FROM messages INDEXED BY messages_by_id WHERE job_id = ?1 AND name = ?2 AND sizes IS NULL LIMIT 1

-- name: count_messages
-- ?1 job, ?2 name.
SELECT max(number) FROM messages WHERE job_id = ?1 AND name = ?2

-- name: messages
-- ?1 queue id, ?2 job, ?3 priority, ?4 name, ?5 after, ?6 limit.
SELECT number, id, payload, kind, sizes FROM messages
WHERE job_id = ?2 AND name = ?4 AND number > ?5
  AND EXISTS (SELECT 1 FROM jobs NOT INDEXED WHERE jobs.id = ?2 AND queue_id = ?1 AND priority = ?3)
ORDER BY number LIMIT ?6

-- name: note_deleted_receivers
-- Those of these jobs that are gone and have messages: ?1 ids as a JSON list. Some may be in the table already: a job
-- was named twice, or two calls delete the same job.
INSERT OR IGNORE INTO deleted_receivers (job_id) SELECT value FROM json_each(?1)
WHERE EXISTS (SELECT 1 FROM messages WHERE job_id = value)
  AND NOT EXISTS (SELECT 1 FROM jobs NOT INDEXED WHERE id = value)

-- name: forget_messages
-- Messages of deleted jobs: ?1 most rows; ?2 most bytes, of which the last row may have more.
DELETE FROM messages WHERE (job_id, name, number) IN (
    SELECT job_id, name, number FROM (
        SELECT job_id, name, number, total(size) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM (
            SELECT messages.job_id, name, number, length(payload) AS size FROM deleted_receivers CROSS JOIN messages
            ON messages.job_id = deleted_receivers.job_id LIMIT ?1
        )
    ) WHERE before < ?2
)

-- name: drop_messages
-- The first messages of a name, about as many as ?3: ?1 job, ?2 name.
DELETE FROM messages WHERE job_id = ?1 AND name = ?2
  AND number < (SELECT min(number) FROM messages WHERE job_id = ?1 AND name = ?2) + ?3

-- name: forget_receivers
-- ?1 limit.
DELETE FROM deleted_receivers WHERE job_id IN (
    SELECT job_id FROM deleted_receivers
    WHERE NOT EXISTS (SELECT 1 FROM messages WHERE messages.job_id = deleted_receivers.job_id) LIMIT ?1
)

-- name: delete_jobs
-- ?1 queue id, ?2 ids as a JSON list, ?3 state.
DELETE FROM jobs NOT INDEXED WHERE id IN (SELECT value FROM json_each(?2)) AND state = ?3 AND queue_id = ?1

-- name: retry_this_job
-- ?3 id, ?4 priority, ?5 attempts, ?6 run after.
UPDATE jobs NOT INDEXED SET state = 0, attempts_remaining = ?5, updated_at = ?2, is_cancelled = 0, failure_group = NULL,
    run_after = iif(job_key IS NULL, ?6, min(?6, 4503599627370496 - 1) + 4503599627370496)
WHERE id = ?3 AND state = 3 AND queue_id = ?1 AND priority = ?4

-- name: schedule_this_job
-- A job that waits for an ordered key keeps its place. ?3 id, ?4 priority, ?5 run after, ?6 whether this may also be
-- later than before.
UPDATE jobs NOT INDEXED SET run_after = ?5 + iif(job_key IS NOT NULL AND run_after >= 4503599627370496, 4503599627370496, 0), updated_at = ?2
WHERE id = ?3 AND state = 0 AND queue_id = ?1 AND priority = ?4
  AND (run_after > ?5 + iif(job_key IS NOT NULL AND run_after >= 4503599627370496, 4503599627370496, 0)
    OR ?6 AND run_after <> ?5 + iif(job_key IS NOT NULL AND run_after >= 4503599627370496, 4503599627370496, 0))
  AND NOT (job_key IS NOT NULL AND run_after >= 4503599627370496 AND key_limit IS 0)

-- name: expired_claims
-- Including whether they are retried.
-- ?1 now, ?2 age of the server, ?3 longest lease to wait for after its start, ?4 limit.
SELECT id, queue_id, NOT {is_to_end} AND attempts_remaining > 1 FROM jobs INDEXED BY jobs_claimed
WHERE state = 1 AND claim_expires <= ?1 AND (?2 >= ?3 OR min(claim_lease, ?3) <= ?2)
ORDER BY claim_expires LIMIT ?4

-- name: expire_jobs
-- ?1 now, ?2 ids as a JSON list, ?3 failure group.
UPDATE jobs NOT INDEXED SET
    state = iif(attempts_remaining <= 1 OR {is_to_end}, 3, 0),
    run_after = iif(attempts_remaining <= 1 OR {is_to_end}, run_after, ?1),
    claim = iif(attempts_remaining <= 1 OR {is_to_end}, claim, NULL),
    unique_key = iif(attempts_remaining <= 1 OR {is_to_end}, NULL, unique_key),
    attempts_remaining = max(attempts_remaining - 1, 0),
    claim_expires = NULL,
    updated_at = ?1,
    failure_group = iif(is_cancelled, NULL, ?3)
WHERE id IN (SELECT value FROM json_each(?2)) AND state = 1

-- name: collect_finished
-- ?1 state, ?2 finished before, ?3 limit.
DELETE FROM jobs NOT INDEXED WHERE id IN (
    SELECT id FROM jobs INDEXED BY jobs_settled
    WHERE state >= 2 AND unlikely(state = ?1) AND updated_at < ?2 ORDER BY updated_at LIMIT ?3
)
RETURNING queue_id, id

-- name: oldest_of_queue
-- Jobs of a deleted queue, state by state so that the indexes apply: ?1 queue id, ?2 limit.
SELECT id FROM (SELECT id FROM jobs INDEXED BY jobs_pending WHERE state = 0 AND queue_id = ?1 LIMIT ?2)
UNION ALL
SELECT id FROM (SELECT id FROM jobs INDEXED BY jobs_finished WHERE state >= 2 AND queue_id = ?1 LIMIT ?2)
UNION ALL
SELECT id FROM (SELECT id FROM jobs INDEXED BY jobs_claimed WHERE state = 1 AND queue_id = ?1 LIMIT ?2)
LIMIT ?2

-- name: delete_by_id
-- ?1 ids as a JSON list.
DELETE FROM jobs NOT INDEXED WHERE id IN (SELECT value FROM json_each(?1))

-- name: queues
SELECT id, name FROM queues WHERE name IS NOT NULL

-- name: states_in_use
-- Whether each queue has jobs in each state. Claims are indexed by expiry, so they are walked once for all queues.
SELECT name,
    EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_pending WHERE state = 0 AND queue_id = queues.id),
    id IN (SELECT queue_id FROM jobs INDEXED BY jobs_claimed WHERE state = 1),
    EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_finished WHERE state >= 2 AND state = 2 AND queue_id = queues.id),
    EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_finished WHERE state >= 2 AND state = 3 AND queue_id = queues.id)
FROM queues WHERE name IS NOT NULL

-- name: deleted_queues
SELECT id FROM queues WHERE name IS NULL

-- name: create_queue
-- ?1 name, ?2 now.
INSERT INTO queues (name, created_at) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING

-- name: queue_settings
SELECT name, is_paused, jobs_per_second, max_running, shards, shards_by_load FROM queues WHERE name IS NOT NULL

-- name: settings_of_queue
-- ?1 queue id.
SELECT is_paused, jobs_per_second, max_running, shards, shards_by_load FROM queues WHERE id = ?1

-- name: change_queue_settings
-- ?1 queue id, ?2 whether it is paused, ?3 jobs per second, ?4 running at once, ?5 shards, ?6 shards by load.
UPDATE queues SET is_paused = ?2, jobs_per_second = ?3, max_running = ?4, shards = ?5, shards_by_load = ?6 WHERE id = ?1

-- name: queue_id
SELECT id FROM queues WHERE name = ?1

-- name: delete_queue
UPDATE queues SET name = NULL WHERE name = ?1

-- name: forget_queue
DELETE FROM queues WHERE id = ?1 AND name IS NULL

-- name: kept_failure_groups
-- Those of these groups that are kept, and when they failed last: ?2 ids as a JSON list.
SELECT failure_groups.id, last_failed_at FROM json_each(?2) CROSS JOIN failure_groups
ON failure_groups.queue_id = ?1 AND failure_groups.id = value

-- name: count_failure_groups
SELECT count(*) FROM failure_groups WHERE queue_id = ?1

-- name: keep_failure_group
-- ?3 id, ?4 class, ?5 error, ?6 example, ?7 when to check it.
INSERT INTO failure_groups (queue_id, id, job, error, example, first_failed_at, last_failed_at, look_at)
VALUES (?1, ?3, ?4, ?5, ?6, ?2, ?2, ?7)

-- name: note_failure
-- ?3 id.
UPDATE failure_groups SET last_failed_at = ?2 WHERE queue_id = ?1 AND id = ?3

-- name: failure_groups
-- Those with the latest failures: ?1 ids of queues as a JSON list, ?2 limit. Each queue has few.
SELECT queue_id, failure_groups.id, job, error, example, first_failed_at, last_failed_at
FROM json_each(?1) CROSS JOIN failure_groups ON failure_groups.queue_id = value
ORDER BY last_failed_at DESC LIMIT ?2

-- name: count_failed_so
-- For each group its index in ?1, how many of its jobs are FAILED, and how many PENDING, as a JSON list: ?1 JSON list
-- of [queue, group], ?2 cap of each count.
SELECT json_group_array(json_array(
    asked.key,
    (SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_by_failure
        WHERE failure_group IS NOT NULL AND state IN (0, 3) AND queue_id = json_extract(asked.value, '$[0]')
          AND failure_group = json_extract(asked.value, '$[1]') AND unlikely(state = 3) LIMIT ?2)),
    (SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_by_failure
        WHERE failure_group IS NOT NULL AND state IN (0, 3) AND queue_id = json_extract(asked.value, '$[0]')
          AND failure_group = json_extract(asked.value, '$[1]') AND unlikely(state = 0) LIMIT ?2))
)) FROM json_each(?1) AS asked

-- name: failure_groups_to_look_at
-- The groups to check, whether they are empty, and how many groups their queue has: ?1 now, ?2 limit.
SELECT queue_id, id, last_failed_at,
    NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_by_failure
        WHERE failure_group IS NOT NULL AND state IN (0, 3) AND jobs.queue_id = failure_groups.queue_id
          AND failure_group = failure_groups.id),
    (SELECT count(*) FROM failure_groups AS all_of_queue WHERE all_of_queue.queue_id = failure_groups.queue_id)
FROM failure_groups INDEXED BY failure_groups_to_look_at WHERE look_at <= ?1 ORDER BY look_at LIMIT ?2

-- name: forget_failure_group
-- ?2 id.
DELETE FROM failure_groups WHERE queue_id = ?1 AND id = ?2

-- name: look_at_failure_group
-- ?2 id, ?3 when.
UPDATE failure_groups SET look_at = ?3 WHERE queue_id = ?1 AND id = ?2

-- name: forget_failure_groups_of_queue
DELETE FROM failure_groups WHERE queue_id = ?1

-- name: next_job_id
SELECT max((SELECT value FROM settings WHERE name = 'next_job_id'), coalesce((SELECT max(id) + 1 FROM jobs), 1))

-- name: reserve_job_ids
UPDATE settings SET value = ?1 WHERE name = 'next_job_id'

-- name: keep_report
-- ?1 worker, ?2 now, ?3 report, ?4 expires.
INSERT INTO reports (worker_id, reported_at, report, expires_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (worker_id) DO UPDATE SET reported_at = ?2, report = ?3, expires_at = ?4

-- name: forget_report
-- ?1 worker.
DELETE FROM reports WHERE worker_id = ?1

-- name: forget_expired_reports
-- Not all at once, since there may be many. ?1 limit, ?2 now.
DELETE FROM reports WHERE rowid IN (SELECT rowid FROM reports WHERE expires_at <= ?2 LIMIT ?1)

-- name: reports
-- ?1 limit, ?2 now.
SELECT worker_id, report, reported_at FROM reports WHERE expires_at > ?2 ORDER BY expires_at DESC LIMIT ?1

-- name: insert_results
-- Completed by queries.insert_results(): VALUES rows follow.
INSERT OR IGNORE INTO call_results (key, number, expires_at) VALUES

-- name: keep_result
-- ?1 key, ?2 number, ?3 places, ?4 expires at.
INSERT OR REPLACE INTO call_results (key, number, places, expires_at) VALUES (?1, ?2, ?3, ?4)

-- name: call_result
-- ?1 key, ?2 now.
SELECT number, places FROM call_results WHERE key = ?1 AND expires_at > ?2

-- name: result_key_behind
-- The key that is ?2 keys behind ?1, if there is one.
SELECT key FROM call_results WHERE key > ?1 ORDER BY key LIMIT 1 OFFSET ?2 - 1

-- name: expired_results
-- How many results with keys behind ?1 up to ?2, included, have expired; their first and last key. ?3 now, ?4 limit.
SELECT count(*), min(key), max(key) FROM (
    SELECT key FROM call_results WHERE key > ?1 AND key <= ?2 AND expires_at <= ?3 ORDER BY key LIMIT ?4
)

-- name: forget_results
-- ?1 first key, ?2 last key, ?3 time at which those to delete had expired.
DELETE FROM call_results WHERE key BETWEEN ?1 AND ?2 AND expires_at <= ?3

-- name: statistics_of_keys
-- The counts stored under these keys, in the given order. ?1 JSON list of [resolution, start, kind, queue, name].
SELECT statistics.resolution, statistics.start, statistics.kind, statistics.queue, statistics.name, counts
FROM json_each(?1) CROSS JOIN statistics ON resolution = json_extract(value, '$[0]')
    AND start = json_extract(value, '$[1]') AND kind = json_extract(value, '$[2]')
    AND queue = json_extract(value, '$[3]') AND name = json_extract(value, '$[4]')

-- name: store_statistics
-- ?1 JSON list of [resolution, start, kind, queue, name, counts].
INSERT OR REPLACE INTO statistics (resolution, start, kind, queue, name, counts)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
       json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]')
FROM json_each(?1)

-- name: statistics_of_all_queues
-- ?1 resolution, ?2 starts as a JSON list, ?3 kind, ?4 name or NULL for any, ?5 limit.
SELECT start, queue, name, counts FROM json_each(?2) CROSS JOIN statistics
ON resolution = ?1 AND start = value AND kind = ?3 AND queue > ''
WHERE ?4 IS NULL OR name = ?4 LIMIT ?5

-- name: statistics_of_queues
-- ?1 resolution, ?2 starts, ?3 kind, ?4 name or NULL for any, ?5 limit, ?6 queues as a JSON list, sorted.
SELECT start, queue, name, counts FROM json_each(?2) CROSS JOIN json_each(?6) AS queues CROSS JOIN statistics
ON resolution = ?1 AND start = json_each.value AND kind = ?3 AND queue = queues.value
WHERE ?4 IS NULL OR name = ?4 LIMIT ?5

-- name: forget_statistics
-- ?1 resolution, ?2 time before which expired periods began, ?3 limit.
DELETE FROM statistics WHERE (resolution, start, kind, queue, name) IN (
    SELECT resolution, start, kind, queue, name FROM statistics WHERE resolution = ?1 AND start < ?2
    ORDER BY start LIMIT ?3
)
