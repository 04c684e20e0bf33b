"""Orders that nobody thought of: random calls on a store and on a model of it in plain Python, compared.

``HYPOTHESIS_PROFILE=thorough`` runs 50 times as many.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pinlater.errors import EnqueueRejected
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import CLAIM_EXPIRED, failure_of
from pinlater.model.messages import MessageKind, MessageWait, Parent
from pinlater.model.unique import OnDuplicate, UniqueRule
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from tests.contract.model_job import ModelJob
from tests.support.bench import QUEUE, Bench, ack_of, new_job
from tests.support.examples import examples

SETTINGS = settings(examples(16), stateful_step_count=30, suppress_health_check=list(HealthCheck))

SOURCES = ("worker", "worker:2", "")
LEASES_MS = (500, 10_000, 1)
priorities = st.sampled_from((1, 2, 1, 3))
attempts = st.sampled_from((2, 3, 1, 0, -1))
offsets = st.sampled_from((None, -10, 10, -30, 40, 0, -10_000))
bodies = st.binary(max_size=2)
statuses = st.sampled_from(("", "a", "bc;"))
keys = st.sampled_from((None, None, "a", "b", "A"))
rules = st.sampled_from(
    (
        None, UniqueRule(), UniqueRule(until_started=True), UniqueRule(on_duplicate=OnDuplicate.REPLACE),
        UniqueRule(until_started=True, on_duplicate=OnDuplicate.DEBOUNCE),
        UniqueRule(on_duplicate=OnDuplicate.DEBOUNCE, max_delay_ms=30),
    )
)  # fmt: skip
results = st.sampled_from((None, None, b"", b"\xff\0"))
names = st.sampled_from(("go", "join"))
waits = st.lists(st.builds(MessageWait, names, st.integers(1, 4)), max_size=2)
few = st.integers(0, 4)
numbers = st.integers(0, 63)
changes = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "body": bodies,
            "run_after_ms": offsets,
            "attempts": attempts,
            "status": statuses,
            "move_to_pending": st.booleans(),
            "waits_for": waits,
        },
    ),
)
new_jobs = st.lists(
    st.fixed_dictionaries(
        {
            "priority": priorities,
            "offset": offsets,
            "allowed": attempts,
            "status": statuses,
            "body": bodies,
            "key": keys,
            "rule": rules,
        }
    ),
    min_size=3,
    max_size=6,
)

FAILURE = failure_of("SendMail", "OSError: connection refused")


class Comparison(RuleBasedStateMachine):
    """The model beside the store.

    Rules pick jobs by a number, so that most hit a job on which they can do something.
    """

    make_home = None  # set by the test

    def __init__(self):
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.bench = Bench(type(self).make_home(Path(self._folder.name)))
        self.jobs: dict[str, ModelJob] = {}
        self.used: list[str] = []
        self.past_claims = [""]

    def teardown(self):
        self.bench.end()
        self._folder.cleanup()

    @property
    def now(self):
        return self.bench.clock.now_ms

    def at(self, offset):
        return None if offset is None else self.now + offset

    def of(self, state):
        return [(name, job) for name, job in self.jobs.items() if job.state == state]

    def pick(self, number):
        """Return a descriptor: of a job that somebody holds, three times out of four; dequeue for that."""
        if number % 4 and not self.of(IN_PROGRESS):
            self.dequeue(3, SOURCES[number % 3], LEASES_MS[number // 4 % 3])
        held = [name for name, _ in self.of(IN_PROGRESS)]
        names = held if held and number % 4 else self.used
        return names[number // 4 % len(names)]

    @initialize(jobs=new_jobs)
    def begin(self, jobs):
        self.bench.create_queue(QUEUE)
        self.enqueue(jobs)

    # What producers and workers do

    @rule(jobs=new_jobs)
    def enqueue(self, jobs):
        wanted = [
            new_job(
                job["body"],
                priority=job["priority"],
                run_after_ms=self.at(job["offset"]),
                attempts=job["allowed"],
                status=job["status"],
                unique_key=job["key"],
                rule=job["rule"],
            )
            for job in jobs
        ]
        for name, job in zip(self.bench.put(*wanted), wanted, strict=True):
            twins = [other for other, twin in self.jobs.items() if twin.key == job.unique is not None]
            if twins and job.unique_rule and job.unique_rule.until_started and self.jobs[twins[0]].lease:
                self.jobs[twins.pop()].key = None
            if twins:
                assert twins == [name]
                self._replaced(self.jobs[name], job)
            else:
                self._stored(name, job)

    @rule(number=numbers, name=names, position=few, offset=offsets)
    def enqueue_child(self, number, name, position, offset):
        parent = Parent(self.pick(number), name, position)
        wanted = new_job(b"child", run_after_ms=self.at(offset), parent=parent)
        job = self.jobs.get(parent.descriptor)
        if job is None or not job.is_unfinished or job.is_cancelled:
            with pytest.raises(EnqueueRejected):
                self.bench.put(new_job(), wanted)
        else:
            (stored,) = self.bench.put(wanted)
            self._stored(stored, wanted)

    def tell_parent(self, job):
        """Tell of the end of a job, or of its deletion."""
        parent = job.parent and self.jobs.get(job.parent.descriptor)
        if parent is None:
            return
        kinds = {SUCCEEDED: MessageKind.SUCCEEDED, FAILED: MessageKind.FAILED}
        kind = MessageKind.CANCELLED if job.state == FAILED and job.is_cancelled else kinds.get(job.state)
        payload = (job.result or b"") if job.state == SUCCEEDED else job.status.encode()
        told = job.parent.name, str(job.parent.position), payload
        parent.receive(*told, MessageKind.DELETED if kind is None else kind, self.now)

    def tell_of_ends(self, changed):
        """Tell of those jobs that have ended, after all changes of a call."""
        for job in changed:
            if not job.is_unfinished:
                self.tell_parent(job)

    def _replaced(self, stored, job):
        if stored.lease or not job.unique_rule or not job.unique_rule.on_duplicate:
            return
        stored.body, stored.status, stored.updated_at = job.body, job.status, self.now
        stored.allowed = stored.remaining = job.attempts
        if job.unique_rule.on_duplicate == OnDuplicate.DEBOUNCE:
            due = self.now if job.run_after_ms is None else job.run_after_ms
            if job.unique_rule.max_delay_ms is not None:
                due = min(due, stored.created_at + job.unique_rule.max_delay_ms)
            stored.run_after = max(due, self.now)

    def _stored(self, name, job):
        assert name not in self.used
        self.used.append(name)
        run_after = self.now if job.run_after_ms is None else job.run_after_ms
        self.jobs[name] = ModelJob(
            JobDescriptor.parse(name).local_id, job.priority, job.body, self.now, run_after, self.now,
            job.attempts, job.attempts, job.status, job.unique, parent=job.parent,
        )  # fmt: skip

    def due(self, limit):
        found = [(name, job) for name, job in self.of(PENDING) if job.run_after <= self.now]
        found.sort(key=lambda entry: (entry[1].priority, entry[1].run_after, entry[1].number))
        return found[:limit]

    @rule(limit=st.sampled_from((1, 2, 3, 10)), source=st.sampled_from(SOURCES), lease=st.sampled_from(LEASES_MS))
    def dequeue(self, limit, source, lease):
        claim = self.bench.claim(source, lease)
        expected = self.due(limit)
        found = self.bench.dequeue_jobs(QUEUE, limit, claim, want_next_due=True)
        taken, next_due = found.jobs, found.next_due_ms
        assert [job.descriptor for job in taken] == [name for name, _ in expected]
        for (_, job), got in zip(expected, taken, strict=True):
            assert got[1:] == (job.body, job.allowed, job.remaining, job.created_at, job.run_after)
            job.state, job.claim, job.source, job.updated_at = IN_PROGRESS, claim.descriptor, source, self.now
            job.lease, job.expires, job.waits = lease, self.now + lease, ()
        if len(taken) < limit:
            later = [job.run_after for _, job in self.of(PENDING) if job.run_after > self.now]
            assert next_due == min(later, default=None)
        self.past_claims.append(claim.descriptor)

    @rule(source=st.sampled_from(SOURCES), limit=st.integers(1, 4))
    def release_and_peek(self, source, limit):
        held = [job for _, job in self.of(IN_PROGRESS) if job.source == source]
        assert self.bench.release_claims(QUEUE, source) == len(held)
        for job in held:
            job.back(job.run_after, self.now)
        self.tell_of_ends(held)
        assert [job.descriptor for job in self.bench.peek_jobs(QUEUE, limit)] == [name for name, _ in self.due(limit)]

    def given_claim(self, name, pick):
        """Return none, the present claim of a job, or some claim of the past."""
        job = self.jobs.get(name)
        choices = [None, job.claim if job else None, *self.past_claims]
        return choices[pick % len(choices)]

    def held(self, name, claim):
        """Return the job if an ack may change it."""
        job = self.jobs.get(name)
        is_held = job is not None and job.state == IN_PROGRESS and claim in {None, job.claim}
        return job if is_held else None

    @rule(number=numbers, pick=few, status=statuses, result=results)
    def ack(self, number, pick, status, result):
        name = self.pick(number)
        claim = self.given_claim(name, pick)
        job = self.held(name, claim)
        assert self.bench.ack(name, claim=claim, status=status, result=result).changed == (job is not None)
        if job:
            job.status, job.result = job.status + status, result
            job.finish(SUCCEEDED, self.now)
            self.tell_parent(job)

    @rule(
        number=numbers,
        pick=few,
        status=statuses,
        delay=st.integers(-5, 50),
        end=st.sampled_from(((False, False), (True, False), (True, True))),
    )
    def nack(self, number, pick, status, delay, end):
        is_final, is_cancelled = end
        name = self.pick(number)
        claim = self.given_claim(name, pick)
        job = self.held(name, claim)
        settled = self.bench.fail(
            name,
            claim=claim,
            status=status,
            retry_delay_ms=delay,
            is_final=is_final,
            is_cancelled=is_cancelled,
            failure=None if is_cancelled else FAILURE,
        )
        assert (settled.changed, settled.stale) == ((1, 0) if job else (0, 1))
        if job:
            job.status += status
            job.is_cancelled |= is_cancelled
            job.spend(self.now + max(delay, 0), self.now, FAILURE.group, is_final=is_final)
            self.tell_of_ends([job])

    @rule(several=st.lists(numbers, max_size=4), split=few)
    def settle_several(self, several, split):
        """One call with acks of both kinds."""
        several = list(dict.fromkeys(map(self.pick, several)))
        done, failed = several[:split], several[split:]
        held = [name for name in several if self.held(name, None)]
        settled = self.bench.ack_dequeued_jobs(
            QUEUE, [ack_of(name) for name in done], [ack_of(name) for name in failed]
        )
        assert (settled.changed, settled.stale) == (len(held), len(several) - len(held))
        for name in held:
            if name in done:
                self.jobs[name].finish(SUCCEEDED, self.now)
            else:
                self.jobs[name].spend(self.now, self.now, None)
        self.tell_of_ends(self.jobs[name] for name in held)

    @rule(number=numbers, pick=few, source=st.sampled_from(SOURCES), changes=changes)
    def checkpoint(self, number, pick, source, changes):
        name = self.pick(number)
        claim = self.given_claim(name, pick)
        job = self.held(name, claim)
        if job and claim is None and job.source != source:
            job = None
        is_back = changes.get("move_to_pending", False)
        changes = {key: value for key, value in changes.items() if is_back or key != "waits_for"}
        changes["run_after_ms"] = self.at(changes.get("run_after_ms"))
        settled = self.bench.checkpoint(name, claim=claim, source=source, **changes)
        assert (settled.changed, settled.stale) == ((1, 0) if job else (0, 1))
        is_told = job is not None and job.is_cancelled and not is_back
        assert [str(told) for told in settled.cancelled] == ([name] if is_told else [])
        if job:
            self._apply(job, has_claim=claim is not None, **changes)

    def _apply(
        self,
        job,
        *,
        has_claim,
        run_after_ms,
        body=None,
        attempts=None,
        status="",
        move_to_pending=False,
        waits_for=(),
    ):
        unchanged = job.run_after if has_claim else self.now  # a job given back by its claim keeps its place
        run_after = unchanged if run_after_ms is None else run_after_ms
        job.body = job.body if body is None else body
        job.allowed, job.remaining = (job.allowed, job.remaining) if attempts is None else (attempts, attempts)
        job.group = job.group if attempts is None else None
        job.status = status + job.status
        job.run_after, job.updated_at, job.expires = run_after, self.now, self.now + job.lease
        if move_to_pending:
            if job.is_due_by(waits_for):
                run_after = min(run_after, self.now)
                job.open |= {"run_after"} if run_after_ms is None else set()  # at once, or in its place
            job.waits = () if job.is_cancelled else tuple(waits_for)
            job.back(run_after, self.now)
            self.tell_of_ends([job])

    @rule(number=numbers, name=names, message_id=few)
    def send(self, number, name, message_id):
        descriptor = self.pick(number)
        job = self.jobs.get(descriptor)
        is_there = job is not None and job.is_unfinished
        assert self.bench.send(descriptor, name, str(message_id), b"sent") == is_there
        if is_there:
            job.receive(name, str(message_id), b"sent", MessageKind.EVENT, self.now)

    # What people and the monitor do

    @rule(several=st.lists(numbers, max_size=3), status=statuses)
    def cancel(self, several, status):
        several = list(dict.fromkeys(map(self.pick, several)))
        families = set(self.to_cancel_of(several).values())
        cancelled = self.bench.cancel(*several, status=status)
        parents = set(map(str, cancelled.parents))
        there = [(name, self.jobs[name]) for name in several if name in self.jobs]
        for name, job in there:
            if job.is_unfinished and not job.is_cancelled:
                job.is_listed = name in parents
        waiting = [job for _, job in there if job.state == PENDING]
        for job in waiting:
            job.finish(FAILED, self.now)
            job.run_after = min(job.run_after, self.now)
            job.waits, job.is_cancelled, job.status, job.group = (), True, job.status + status, None
            job.open.add("remaining")
        for _, job in there:
            if job.state == IN_PROGRESS and not job.is_cancelled:
                job.is_cancelled, job.status, job.group = True, job.status + status, None
                job.open.add("updated_at")
        ended = [name for name, job in there if job.state == FAILED and job.is_cancelled]
        assert sorted(map(str, cancelled.ended)) == sorted(ended)
        assert sorted(map(str, cancelled.asked)) == sorted(name for name, job in there if job.state == IN_PROGRESS)
        assert parents <= {*map(str, cancelled.ended + cancelled.asked)}
        assert parents >= families & {*map(str, cancelled.ended + cancelled.asked)}
        self.tell_of_ends(waiting)

    @rule(several=st.lists(numbers, max_size=3))
    def finish_cancellation(self, several):
        several = list(dict.fromkeys(map(self.pick, several)))
        self.bench.finish_cancellation(QUEUE, [*map(JobDescriptor.parse, several)])
        for name in several:
            if name in self.jobs and self.jobs[name].is_cancelled:
                self.jobs[name].is_listed = False

    def to_cancel_of(self, parents):
        """Return the jobs that have to be cancelled with these, with the parent of each."""
        return {
            name: job.parent.descriptor
            for name, job in self.jobs.items()
            if job.parent and job.parent.descriptor in parents and job.is_to_cancel
        }

    @rule(several=st.lists(numbers, max_size=3))
    def find_children(self, several):
        parents = list(dict.fromkeys(map(self.pick, several)))
        found = self.bench.children_to_cancel([*map(JobDescriptor.parse, parents)], 1000)
        assert sorted(map(str, found)) == sorted(self.to_cancel_of(parents))

    @rule(priority=priorities, allowed=attempts, offset=offsets, limit=few)
    def retry(self, priority, allowed, offset, limit):
        failed = [job for _, job in self.of(FAILED) if job.priority == priority]
        failed.sort(key=lambda job: (job.run_after, job.number))
        moved = self.bench.retry(priority=priority, attempts=allowed, run_after_ms=self.at(offset), limit=limit)
        assert moved == min(limit, len(failed))
        for job in failed[:limit]:
            claim, job.is_cancelled, job.is_listed = job.claim, False, False  # the claim stays, to tell who failed
            job.back(self.now if offset is None else self.at(offset), self.now)
            job.remaining, job.claim, job.group = allowed, claim, None

    @rule(number=numbers, by_body=st.booleans())
    def delete(self, number, by_body):
        """Delete a job with all that are like it."""
        job = self.jobs.get(self.pick(number))
        if job is None:
            return
        alike = [(name, twin) for name, twin in self.of(job.state) if twin.priority == job.priority]
        gone = [name for name, twin in alike if twin.body == job.body or not by_body]
        pattern = "^" + "".join(f"\\x{byte:02x}" for byte in job.body) + r"\z" if by_body else None
        assert self.bench.delete(job.state, priority=job.priority, body_regex=pattern) == len(gone)
        for ended in [self.jobs.pop(name) for name in gone]:
            if ended.is_unfinished:
                self.tell_parent(ended)

    @rule(
        ms=st.sampled_from((10, 480, 0, 10_000, 50)), limit=st.integers(1, 5), age=st.sampled_from((10**9, 600, 400, 0))
    )
    def tick(self, ms, limit, age):
        """Time passes, and the monitor looks for expired claims."""
        self.bench.clock.advance(ms)
        quiet = 1000
        over = [
            job
            for _, job in self.of(IN_PROGRESS)
            if job.expires <= self.now and (age >= quiet or min(job.lease, quiet) <= age)
        ]
        if len({job.expires for job in over}) < len(over):
            limit = 1000  # among equals there is no promised order
        over.sort(key=lambda job: job.expires)
        reaped = self.bench.reap(limit, server_age_ms=age, quiet_ms=quiet)
        for job in over[:limit]:
            job.spend(self.now, self.now, CLAIM_EXPIRED.group)
        self.tell_of_ends(over[:limit])
        failed = sum(job.state == FAILED for job in over[:limit])
        retried = len(over[:limit]) - failed
        assert reaped == ([(QUEUE, retried, failed)] if over else [])

    @rule(succeeded=st.sampled_from((0, 20, 400)), failed=st.sampled_from((0, 20, 400)))
    def collect(self, succeeded, failed):
        counts = []
        for state, ttl in ((SUCCEEDED, succeeded), (FAILED, failed)):
            gone = [name for name, job in self.of(state) if job.updated_at < self.now - ttl]
            counts.append(len(gone))
            for name in gone:
                del self.jobs[name]
        collected = self.bench.collect_finished(succeeded, failed, 1000)
        assert [(item.succeeded, item.failed) for item in collected] == ([tuple(counts)] if any(counts) else [])

    @rule(is_crash=st.booleans())
    def restart(self, is_crash):
        self.bench.crash() if is_crash else self.bench.reopen()

    # What must hold all the time

    @invariant()
    def the_store_has_what_the_model_has(self):
        for state in (PENDING, IN_PROGRESS, SUCCEEDED, FAILED):
            page = self.bench.scan(state, limit=1000)
            assert {record.descriptor for record in page.jobs} == {name for name, _ in self.of(state)}
        records = self.bench.lookup_jobs(
            [JobDescriptor.parse(name) for name in self.jobs], include_body=True, include_result=True
        )
        for (name, job), record in zip(self.jobs.items(), records, strict=True):
            self._compare(name, job, record)

    @staticmethod
    def _compare(name, job, record):
        if job.open:
            found = {
                "remaining": record.attempts_remaining,
                "run_after": record.run_after_ms,
                "updated_at": record.updated_at_ms,
            }
            vars(job).update({field: found[field] for field in job.open})
            job.open.clear()
        expected = (
            name, job.state, job.allowed, job.remaining, job.status,
            job.created_at, job.run_after, job.updated_at, job.claim, job.body, job.key, None,
            job.result, job.is_cancelled, job.parent, job.waits, job.group, None,
        )  # fmt: skip
        assert record._replace(waits_for=tuple(record.waits_for)) == expected

    @invariant()
    def jobs_have_the_messages_that_they_have_in_the_model(self):
        for descriptor, job in self.jobs.items():
            for name, expected in job.messages.items():
                if not (expected and job.is_unfinished):
                    continue
                found = self.bench.read(descriptor, name)
                assert [one.number for one in found] == list(range(1, len(found) + 1))
                assert {one[1:] for one in found} == {one[1:] for one in expected}, "in any order within a call"


@pytest.mark.timeout(3600)
def test_the_store_does_what_the_model_does(home_kind):
    machine = type("ComparisonOfOneStore", (Comparison,), {"make_home": home_kind})
    run_state_machine_as_test(machine, settings=SETTINGS)
