"""Checkpoints: a new lease and what the job wants changed, for the holder of the claim alone."""

import pytest

from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.records import MAX_STATUS_CHARACTERS
from tests.support.bench import LEASE_MS, QUEUE, checkpoint_of, new_job

CHANGES = {
    "nothing": {},
    "body": {"body": b"next"},
    "no utf-8": {"body": b"\xff\0"},
    "empty body": {"body": b""},
    "attempts": {"attempts": 5},
    "status": {"status": "half;"},
    "run after": {"run_after_ms": 4_102_444_800_000},
    "back": {"move_to_pending": True},
    "all": {"body": b"next", "attempts": 5, "status": "half;", "run_after_ms": 77, "move_to_pending": True},
}


@pytest.mark.parametrize("by_claim", [True, False], ids=["by claim", "by source"])
@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_the_holder_changes_what_it_asks_for_and_nothing_else(backend, changes, by_claim):
    descriptor, claim = backend.started(b"hello", attempts=3, status="new")
    before = backend.look(descriptor)
    now = backend.clock.advance(7)
    holder = {"claim": claim, "source": "somebody else"} if by_claim else {"source": "worker"}
    settled = backend.checkpoint(descriptor, **holder, **changes)
    run_after_ms = changes.get("run_after_ms", before.run_after_ms if by_claim else now)
    is_back = changes.get("move_to_pending", False)
    assert settled[:3] == (1, 0, changes.get("run_after_ms", now) if is_back else None)
    attempts = changes.get("attempts", 3)
    assert backend.look(descriptor) == before._replace(
        state=PENDING if is_back else IN_PROGRESS,
        attempts_allowed=attempts,
        attempts_remaining=attempts,
        status=changes.get("status", "") + "new",
        run_after_ms=run_after_ms,
        updated_at_ms=now,
        claim=None if is_back else claim,
        body=changes.get("body", b"hello"),
    )


def test_a_job_given_back_runs_again_from_its_checkpoint_with_all_attempts(backend):
    descriptor, _ = backend.started(attempts=1)
    for step in range(5):
        later = backend.clock.now_ms + 100
        backend.checkpoint(descriptor, body=f"{step}".encode(), move_to_pending=True, run_after_ms=later)
        assert backend.take() == []
        backend.clock.advance(100)
        assert [(job.body, job.attempts_remaining) for job in backend.take()] == [(f"{step}".encode(), 1)]


@pytest.mark.parametrize("changes", [{}, {"body": b"new"}], ids=["renewed", "saved"])
def test_a_job_given_back_by_its_claim_keeps_its_place(backend, changes):
    names = []
    for _ in range(3):
        names.append(backend.put_one())
        backend.clock.advance(10)
    claim = backend.claim("worker", LEASE_MS)
    assert [job.descriptor for job in backend.dequeue_jobs(QUEUE, 3, claim).jobs] == names
    for name in reversed(names):
        backend.clock.advance(10)
        assert backend.checkpoint(name, claim=claim.descriptor, **changes).changed == 1
        backend.clock.advance(10)
        assert backend.checkpoint(name, claim=claim.descriptor, move_to_pending=True).changed == 1
    last = backend.put_one()
    assert backend.take_names(4) == [*names, last]


def test_without_a_time_a_job_given_back_is_due_at_once(backend):
    descriptor, _ = backend.started()
    backend.checkpoint(descriptor, move_to_pending=True)
    assert backend.take_names() == [descriptor]


@pytest.mark.parametrize("state", [PENDING, SUCCEEDED, FAILED])
def test_a_job_that_is_not_in_progress_stays_as_it_is(backend, state):
    descriptor = backend.put_one() if state == PENDING else backend.finished(state=state)
    before = backend.look(descriptor)
    backend.clock.advance(7)
    holders = [{"source": "worker"}, {"source": ""}, {"claim": before.claim or ""}]
    for holder in holders:
        assert backend.checkpoint(descriptor, body=b"late", status="late", **holder)[:3] == (0, 1, None)
        assert backend.checkpoint(descriptor, **holder)[:3] == (0, 1, None)
    assert backend.look(descriptor) == before


@pytest.mark.parametrize(
    "source",
    ["", "%", "_", "______", "work", "orker", "Worker", "worker ", "worker:1", "work%", "w_rker", "host", "9010", ":"],
)
def test_another_source_changes_nothing(backend, source):
    descriptor, _ = backend.started(source="worker")
    before = backend.look(descriptor)
    backend.clock.advance(7)
    assert backend.checkpoint(descriptor, source=source, body=b"foreign")[:3] == (0, 1, None)
    assert backend.checkpoint(descriptor, source=source)[:3] == (0, 1, None)
    assert backend.look(descriptor) == before


@pytest.mark.parametrize(
    "source", ["a", "a:b", "shop:web1:42", "::", "", "%", "späť:重试", "x" * 3000, "12:34", "tab\tnewline\n"]
)
def test_a_source_of_any_form_matches_itself_and_no_other(backend, source):
    descriptor, _ = backend.started(source=source)
    assert backend.checkpoint(descriptor, source=source + "x", body=b"foreign").changed == 0
    assert backend.checkpoint(descriptor, source="x" + source, body=b"foreign").changed == 0
    assert backend.checkpoint(descriptor, source=source, body=b"own").changed == 1
    assert backend.look(descriptor).body == b"own"


@pytest.mark.parametrize("changes", [{}, {"body": b"stale"}], ids=["renewal", "change"])
def test_a_lost_claim_changes_nothing_even_from_the_same_source(backend, changes):
    descriptor, old = backend.started(attempts=3)
    backend.clock.advance(LEASE_MS)
    backend.reap()
    backend.take()
    before = backend.look(descriptor)
    backend.clock.advance(7)
    assert backend.checkpoint(descriptor, claim=old, source="worker", **changes)[:3] == (0, 1, None)
    assert backend.look(descriptor) == before


@pytest.mark.parametrize("changes", [{}, {"body": b"next"}, {"run_after_ms": 0}], ids=["renewal", "body", "run after"])
def test_each_checkpoint_starts_the_lease_anew(backend, changes):
    descriptor, claim = backend.started(lease_ms=1000)
    for _ in range(5):
        backend.clock.advance(999)
        assert backend.reap() == []
        assert backend.checkpoint(descriptor, claim=claim, **changes).changed == 1
    backend.clock.advance(999)
    assert backend.reap() == []
    backend.clock.advance(1)
    assert [(queue, retried) for queue, retried, _ in backend.reap()] == [(QUEUE, 1)]


def test_a_run_after_ahead_does_not_lengthen_the_lease(backend):
    descriptor, _ = backend.started(lease_ms=1000)
    backend.checkpoint(descriptor, run_after_ms=backend.clock.now_ms + 10**9)
    backend.clock.advance(1000)
    backend.reap()
    assert backend.state(descriptor) == PENDING


def test_attempts_set_by_a_checkpoint_count_from_then_on(backend):
    descriptor, _ = backend.started(attempts=1)
    backend.checkpoint(descriptor, attempts=2)
    backend.fail(descriptor)
    assert backend.look(descriptor).attempts_remaining == 1
    backend.take()
    backend.fail(descriptor)
    assert backend.state(descriptor) == FAILED


@pytest.mark.parametrize("attempts", [0, -1])
def test_no_attempts_set_by_a_checkpoint_leave_no_job_stuck(backend, attempts):
    descriptor, _ = backend.started(attempts=3)
    backend.checkpoint(descriptor, attempts=attempts)
    backend.fail(descriptor)
    assert backend.state(descriptor) == FAILED


def test_statuses_are_prepended(backend):
    descriptor, _ = backend.started(status="new")
    backend.checkpoint(descriptor, status="first;")
    backend.checkpoint(descriptor, status="second;")
    assert backend.look(descriptor).status == "second;first;new"


@pytest.mark.parametrize("character", ["-", "é", "🐙"])
def test_a_prepended_status_is_cut_at_its_old_end(backend, character):
    descriptor, _ = backend.started(status="old")
    backend.checkpoint(descriptor, status=character * (MAX_STATUS_CHARACTERS - 1))
    assert backend.look(descriptor).status == character * (MAX_STATUS_CHARACTERS - 1) + "o"


@pytest.mark.parametrize("status", ["", "é"])
def test_a_new_run_finds_room_in_the_status(backend, status):
    old = "🐙" * MAX_STATUS_CHARACTERS
    descriptor, _ = backend.started(status=old, attempts=3)
    backend.checkpoint(descriptor, status=status, attempts=3, move_to_pending=True)
    assert backend.look(descriptor).status == f"{(status + old)[:1598]}…\n"


def test_a_new_run_of_a_job_that_says_nothing_leaves_it_so(backend):
    descriptor, _ = backend.started(attempts=3)
    backend.checkpoint(descriptor, attempts=3, move_to_pending=True)
    assert backend.look(descriptor).status == ""


@pytest.mark.parametrize("changes", [{"attempts": 3}, {"attempts": 4, "move_to_pending": True}])
def test_what_is_no_new_run_leaves_the_status_whole(backend, changes):
    old = "-" * MAX_STATUS_CHARACTERS
    descriptor, _ = backend.started(status=old, attempts=3)
    backend.checkpoint(descriptor, **changes)
    assert backend.look(descriptor).status == old


def test_one_call_with_renewals_changes_and_strangers(backend):
    names = backend.put(*[new_job(b"old", priority=n % 3 + 1) for n in range(12)])
    claims = {}
    for _ in range(3):
        claim = backend.claim()
        claims |= {job.descriptor: claim.descriptor for job in backend.dequeue_jobs(QUEUE, 4, claim).jobs}
    now = backend.clock.advance(7)
    settled = backend.checkpoint_jobs(
        QUEUE,
        [checkpoint_of(name, claim=claims[name]) for name in names[:6]]
        + [checkpoint_of(name, claim=claims[name], body=b"new") for name in names[6:9]]
        + [checkpoint_of(name, claim="other") for name in names[9:11]]
        + [checkpoint_of(names[11], source="other", body=b"new")],
    )
    assert settled[:3] == (9, 3, None)
    records = [backend.look(name) for name in names]
    assert [record.body for record in records] == [b"old"] * 6 + [b"new"] * 3 + [b"old"] * 3
    assert [record.updated_at_ms == now for record in records] == [True] * 9 + [False] * 3


def test_which_jobs_are_not_held_is_told(backend):
    """Of renewals and of changes; a job that was acknowledged, deleted, or given to somebody else is not held."""
    held, given_on, ended, back = backend.put(*[new_job() for _ in range(4)])
    backend.take()
    backend.ack(ended)
    missing = ended.rpartition(":")[0] + ":999"
    claims = {name: backend.look(name).claim for name in (held, given_on)}
    backend.checkpoint(given_on, claim=claims[given_on], move_to_pending=True)
    assert backend.take_names() == [given_on]
    for changes in ({}, {"body": b"next"}):
        items = [
            *(checkpoint_of(name, claim=claims[held], **changes) for name in (held, ended, missing)),
            checkpoint_of(given_on, claim=claims[given_on], **changes),
            checkpoint_of(back, claim="of nobody:1:1:x:1", move_to_pending=True),
        ]
        settled = backend.checkpoint_jobs(QUEUE, items)
        assert {str(job) for job in settled.lost} == {given_on, ended, missing}
        assert (settled.changed, settled.stale) == (1, 4)
    assert backend.checkpoint(held, claim=claims[held]).lost == ()
    assert [str(job) for job in backend.checkpoint(held, source="somebody else", body=b"x").lost] == [held]


def test_checkpoints_of_one_job_apply_in_their_order(backend):
    descriptor, claim = backend.started()
    backend.checkpoint_jobs(
        QUEUE, [checkpoint_of(descriptor, claim=claim, body=body, status=f"{body};") for body in (b"1", b"2", b"3")]
    )
    assert backend.look(descriptor).body == b"3"
    assert backend.look(descriptor).status == "b'3';b'2';b'1';"


def test_a_job_given_back_cannot_be_changed_any_more_by_the_same_call(backend):
    descriptor, claim = backend.started(b"old")
    settled = backend.checkpoint_jobs(
        QUEUE,
        [
            checkpoint_of(descriptor, claim=claim, move_to_pending=True),
            checkpoint_of(descriptor, claim=claim, body=b"late"),
            checkpoint_of(descriptor, claim=claim),
        ],
    )
    assert (settled.changed, settled.stale) == (1, 2)
    assert backend.look(descriptor).body == b"old"


def test_no_checkpoints(backend):
    assert backend.checkpoint_jobs(QUEUE, [])[:3] == (0, 0, None)


def test_a_checkpoint_survives_a_crash(backend):
    descriptor, claim = backend.started(b"old")
    backend.checkpoint(descriptor, body=b"new")
    backend.crash()
    assert backend.look(descriptor).body == b"new"
    assert backend.checkpoint(descriptor, claim=claim).changed == 1
