"""Rules about queues."""

import pytest

from pinlater.model.queues import QueueSettings
from pinlater.model.workers import QueueLoad
from pinlater.triage.queue_rules import backlog, class_flood, key_flood, key_held, no_worker, paused, pool_gone
from pinlater.triage.readings import Depth, FloodSample, Flow, KeyHold
from tests.unit.triage.readings import NOW_MS, found, kinds, process, readings, worker

PAUSED = {"email": QueueSettings(is_paused=True)}


def test_a_running_job_holds_up_the_others_of_its_key():
    def held(minutes, waiting=3):
        hold = KeyHold("email:s1:p1:7", "ada", NOW_MS - minutes * 60_000, waiting)
        return found(key_held, readings(holds={"email": hold}))

    assert held(9) == []
    [finding] = held(11)
    assert (finding.severity, finding.queue, finding.affected) == ("warning", "email", 3)
    assert finding.sentence.startswith(
        "Job email:s1:p1:7 has been running for 11 minutes, and 3 jobs of its key ada wait until it ends."
    )
    assert "1 job of its key ada waits until" in held(11, waiting=1)[0].sentence


def test_a_job_that_runs_no_longer_than_usual_for_its_class_may_be_intended():
    def held(usual_seconds):
        hold = KeyHold("email:s1:p1:7", "ada", NOW_MS - 40 * 60_000, 3, "Report", usual_seconds)
        [finding] = found(key_held, readings(holds={"email": hold}))
        return finding

    usual, long = held(45 * 60.0), held(30 * 60.0)
    assert (usual.severity, long.severity, long.job) == ("notice", "warning", "Report")
    assert usual.sentence.endswith("wait until it ends. Of the attempts of Report, 95 % take 45 minutes at most.")
    assert "hangs" not in usual.advice
    assert "hangs" in long.advice


def test_due_jobs_and_nobody_to_take_them():
    looked_at = readings("email", "sms", waits={"email": 90}, depths={"email": Depth(40, 0)})
    [finding] = found(no_worker, looked_at)
    assert (finding.severity, finding.queue, finding.numbers["jobs"]) == ("critical", "email", 40)
    assert finding.sentence == "40 jobs wait in queue email, the first for 90 seconds, and no worker serves it."
    [soon] = found(no_worker, readings(waits={"email": 10}))
    assert soon.severity == "warning"


@pytest.mark.parametrize(
    "looked_at",
    [
        readings(waits={"email": 1}),
        readings(waits={"email": 90}, workers=[worker(process())]),
        readings(waits={"email": 90}, workers=None),
        readings(waits={"email": 90}, settings=PAUSED),
        readings(waits={"email": 90}, depths={"email": Depth(40, 1)}),
    ],
    ids=["for a moment", "served", "workers unknown", "paused", "taken by other clients"],
)
def test_no_worker_is_no_finding(looked_at):
    assert found(no_worker, looked_at) == []


@pytest.mark.parametrize(
    "other", [worker(process(), is_draining=True), worker(process(queues=["sms"])), worker()], ids=str
)
def test_workers_that_drain_or_serve_others_do_not_count(other):
    assert len(found(no_worker, readings(waits={"email": 90}, workers=[other]))) == 1


def test_jobs_may_wait_for_a_minute_while_their_worker_restarts():
    drains = worker(process(), is_draining=True)
    assert found(no_worker, readings(waits={"email": 59}, workers=[drains])) == []
    assert [one.severity for one in found(no_worker, readings(waits={"email": 60}, workers=[drains]))] == ["critical"]


def test_all_workers_of_a_queue_are_silent():
    gone = worker(process(queues=["email", "deleted"]), silent=20)
    [finding] = found(pool_gone, readings(workers=[gone], waits={"email": 5}))
    assert (finding.severity, finding.queue, finding.worker) == ("critical", "email", "web1:7")
    assert "(web1) have been silent for 20 seconds" in finding.sentence
    assert kinds(readings(workers=[gone], waits={"email": 90})) == ["pool_gone"], "said once"
    [told] = found(pool_gone, readings(workers=[gone], settings=PAUSED))
    assert told.severity == "warning"


def test_one_of_two_workers_is_silent():
    looked_at = readings(workers=[worker(process(), silent=20), worker(process(), host="web2")])
    assert kinds(looked_at) == ["worker_silent"]


def test_a_paused_queue_makes_jobs_wait():
    [finding] = found(paused, readings(settings=PAUSED, waits={"email": 30}))
    assert (finding.severity, finding.command) == ("notice", "pinlater resume email")
    [finding] = found(paused, readings(settings=PAUSED, waits={"email": 7200}))
    assert finding.severity == "warning"
    assert "the first for 2 hours; the pause may be forgotten" in finding.sentence
    by_file = {"email": QueueSettings(is_paused=True, is_from_file=True)}
    [finding] = found(paused, readings(settings=by_file, waits={"email": 7200}))
    assert finding.command == ""
    assert "server's file of limits" in finding.advice


def test_an_empty_queue_may_be_paused():
    assert found(paused, readings(settings=PAUSED)) == []
    assert found(paused, readings(waits={"email": 7200})) == []


def test_a_queue_that_is_served_is_behind():
    served = [worker(process(slots=4))]
    looked_at = readings(waits={"email": 700}, workers=served, depths={"email": Depth(9000, 4)})
    [finding] = found(backlog, looked_at)
    assert finding.sentence.startswith("9,000 jobs wait in queue email, the first for 12 minutes, although workers can")
    assert found(backlog, readings(waits={"email": 500}, workers=served)) == []
    assert found(backlog, readings(waits={"email": 700})) == [], "another rule says why"
    assert found(backlog, readings(waits={"email": 700}, workers=served, settings=PAUSED)) == []


def test_a_latency_target_is_missed():
    served = [worker(process(slots=4), loads=[QueueLoad("email", 5000), QueueLoad("email", 2000)])]
    assert found(backlog, readings(waits={"email": 3}, workers=served)) == []
    [finding] = found(backlog, readings(waits={"email": 5}, workers=served))
    assert "They should start within 2 seconds." in finding.sentence


def test_a_limit_holds_a_queue_back():
    limited = {"email": QueueSettings(jobs_per_second=0.5, max_running=3)}
    [finding] = found(backlog, readings(waits={"email": 700}, workers=[worker(process())], settings=limited))
    assert "Its limit is 0.5 jobs a second and 3 at once." in finding.sentence
    assert finding.command == "pinlater limit email"


def test_one_key_has_most_of_the_waiting_jobs():
    looked_at = readings(keys={"email": FloodSample("tenant-7", 190, 200, 5000)})
    [finding] = found(key_flood, looked_at)
    assert "190 of 200" in finding.sentence
    assert "tenant-7" in finding.sentence
    assert finding.numbers == {"jobs": 5000, "share": 0.95}


@pytest.mark.parametrize("sample", [FloodSample("a", 50, 200, 5000), FloodSample("a", 20, 20, 20)])
def test_keys_that_share_a_queue_are_no_flood(sample):
    assert found(key_flood, readings(keys={"email": sample})) == []


def test_the_connection_of_the_only_worker_has_ended():
    lost = worker(process(), silent=1, lost_ms=NOW_MS - 8000)
    [finding] = found(pool_gone, readings(waits={"email": 4}, workers=[lost]))
    assert "All workers of queue email (web1) have been silent for 8 seconds" in finding.sentence
    assert finding.since_ms == NOW_MS - 8000
    assert found(pool_gone, readings(workers=[lost, worker(process(9), host="web2")])) == []


def test_one_class_crowds_out_the_others():
    looked_at = readings(classes={"email": FloodSample("Report", 190, 200, 5000, 0.2)})
    [finding] = found(class_flood, looked_at)
    assert (finding.kind, finding.queue, finding.job) == ("class_flood", "email", "Report")
    assert "190 of 200 waiting jobs that were looked at in queue email are of class Report" in finding.sentence
    assert "which usually has 20 % of its attempts; 5,000 jobs wait in all" in finding.sentence


@pytest.mark.parametrize(
    "sample",
    [FloodSample("a", 90, 200, 5000, 0.1), FloodSample("a", 20, 20, 20), FloodSample("a", 190, 200, 5000, 0.8)],
    ids=["others wait, too", "few wait", "it is as usual"],
)
def test_classes_that_share_a_queue_are_no_flood(sample):
    assert found(class_flood, readings(classes={"email": sample})) == []


def test_a_key_explains_a_class():
    keys, classes = {"email": FloodSample("a", 200, 200, 500)}, {"email": FloodSample("b", 200, 200, 500)}
    assert kinds(readings(keys=keys, classes=classes)) == ["key_flood"]


def test_a_flood_explains_a_backlog():
    looked_at = readings(
        waits={"email": 7000}, workers=[worker(process())], keys={"email": FloodSample("a", 200, 200, 5000)}
    )
    assert kinds(looked_at) == ["key_flood"]


def test_the_workers_that_started_jobs_are_gone():
    looked_at = readings(waits={"email": 5}, recent={}, before={"email": Flow(14_400, started=900)})
    [finding] = found(no_worker, looked_at)
    assert (finding.kind, finding.title) == ("pool_gone", "All workers of queue email are gone")
    assert "It started 900 jobs within the last hours: the workers that did are gone." in finding.sentence


def test_claims_of_the_dead_do_not_count():
    held = {"depths": {"email": Depth(40, 3)}, "waits": {"email": 90}}
    assert len(found(no_worker, readings(**held, recent={}))) == 1
    at_work = Flow(60, started=5)
    assert found(no_worker, readings(**held, recent={"email": at_work}, last_minute={"email": at_work})) == []


def test_a_paused_queue_that_grows_is_worse():
    looked_at = readings(settings=PAUSED, waits={"email": 30}, recent={"email": Flow(300, enqueued=600)})
    [finding] = found(paused, looked_at)
    assert finding.severity == "warning"
    assert finding.sentence.endswith(" It grows, per second: 2 in, 0 done.")
    [finding] = found(paused, readings(settings=PAUSED, waits={"email": 30}, recent={"email": Flow(300, enqueued=6)}))
    assert finding.severity == "notice"
