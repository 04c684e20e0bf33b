-- Version 14: a cancelled job stays among the children of its parent until its own children are cancelled.

-- Until then, jobs.is_cancelled is 2.
CREATE INDEX jobs_cancelled_with_children ON jobs (parent_id) WHERE is_cancelled = 2;
