-- Version 12: expired results of calls are found by a walk through all of them.

-- A second page of nearly each commit, for what is asked once a second.
DROP INDEX call_results_expiring;
