"""Jobs that wait for events."""

import asyncio
from dataclasses import dataclass

import pytest

from pinlater.errors import EventInvalid, EventTimeout, JobSleeps
from pinlater.jobs.job import Job
from pinlater.jobs.waiting import ENDLESS_MS, JobWaits
from pinlater.model.messages import MessageWait
from pinlater.testing import FakeContext, killed_everywhere, run_inline

WEEK = 7 * 86400


@dataclass
class Approval:
    by: str


class Publish(Job[str], queue="articles"):
    def run(self, context):
        approval = context.wait_for("approval", Approval, timeout=WEEK)
        return approval.by


class Collect(Job[list[int]], queue="articles"):
    """Gets one event after another, and its end as another one."""

    wanted: int

    def run(self, context):
        found = [context.wait_for("number", int) for _ in range(self.wanted)]
        context.step("note", found.copy)
        context.wait_for("end")
        return found


class Patient(Job[list[str]], queue="articles"):
    """Waits again when it has waited in vain."""

    def run(self, context):
        found = []
        for _ in range(3):
            try:
                found.append(context.wait_for("note", str, timeout=WEEK))
            except EventTimeout:
                found.append("nothing")
        return found


class Both(Job[tuple[int, int]], queue="articles"):
    async def run(self, context):
        async def wait(name):
            return context.wait_for(name, int, timeout=WEEK if name == "left" else None)

        return tuple(await asyncio.gather(wait("left"), wait("right")))


class Series(Job, queue="articles"):
    """Waits for one event in each run."""

    def run(self, context):
        seen.append(context.wait_for("number", int))
        context.reschedule(after=0)


seen = []


def test_an_event_ends_the_wait():
    with run_inline(Publish) as client:
        handle = client.enqueue(Publish())
        assert not handle.status().state.is_final
        assert handle.send("approval", Approval(by="ada"))
        assert handle.result(timeout=0) == "ada"
        assert not handle.send("approval", Approval(by="bob")), "it has finished"


def test_without_one_in_time_the_job_is_given_up():
    with run_inline(Publish) as client:
        handle = client.enqueue(Publish())
        client.advance(WEEK - 60)
        assert not handle.status().state.is_final
        client.advance(120)
        assert "EventTimeout: no event 'approval' came in time (final: no retry would help)" in handle.status().status


def test_events_come_in_the_order_of_their_arrival_also_those_sent_before():
    with run_inline(Collect) as client:
        handle = client.enqueue(Collect(wanted=3))
        for number in (5, 3):
            handle.send("number", number)
        handle.send("end", None)
        assert not handle.status().state.is_final
        handle.send("number", 9)
        assert handle.result(timeout=0) == [5, 3, 9]


def test_an_event_with_the_same_id_is_delivered_once():
    with run_inline(Collect) as client:
        handle = client.enqueue(Collect(wanted=2))
        for number, name in ((1, "a"), (2, "a"), (3, "b")):
            assert handle.send("number", number, id=name)
        handle.send("end", None)
        assert handle.result(timeout=0) == [1, 3]


def test_wherever_it_is_killed_each_event_is_delivered_once():
    for client in killed_everywhere(Collect):
        handle = client.enqueue(Collect(wanted=2))
        for number in (7, 8, 9):
            handle.send("number", number)
        handle.send("end", None)
        client.assert_succeeded()
        assert handle.result(timeout=0) == [7, 8], client.killed_at


def test_an_event_that_comes_late_is_for_the_next_wait():
    for client in killed_everywhere(Patient):
        handle = client.enqueue(Patient())
        client.advance(WEEK + 1)
        handle.send("note", "one")
        client.advance(WEEK + 1)
        assert handle.result(timeout=0) == ["nothing", "one", "nothing"], client.killed_at


def test_several_waits_at_once_are_each_ended_by_their_event():
    with run_inline(Both) as client:
        handle = client.enqueue(Both())
        assert {wait.name for wait in client.outcomes[0].waits_for} == {"event/left", "event/right"}
        assert client.outcomes[0].run_after_ms < ENDLESS_MS, "the earlier end counts"
        handle.send("right", 2)
        handle.send("left", 1)
        assert handle.result(timeout=0) == (1, 2)


def test_the_next_run_goes_on_after_the_last_event(pinlater_server):
    seen.clear()
    client = pinlater_server.client(Series)
    handle = client.enqueue(Series())
    for number in (1, 2, 3):
        handle.send("number", number)
    pinlater_server.run_worker(Series)
    assert seen == [1, 2, 3]


def test_a_person_who_retries_a_job_that_has_waited_in_vain_lets_it_wait_again(pinlater_server):
    client = pinlater_server.client(Publish)
    handle = client.enqueue(Publish())
    pinlater_server.run_worker(Publish)
    pinlater_server.advance(WEEK + 60)
    pinlater_server.run_worker(Publish)
    assert handle.status().state.name == "FAILED"
    assert client.retry_failed("articles") == 1
    pinlater_server.run_worker(Publish)
    assert handle.send("approval", Approval(by="ada"))
    pinlater_server.run_worker(Publish)
    assert handle.result(timeout=10) == "ada"


def test_a_wait_without_a_timeout_ends_with_the_job_s_own_time(pinlater_server):
    class Hurried(Job, queue="articles", give_up_after=3600):
        def run(self, context):
            context.wait_for("approval")

    handle = pinlater_server.client(Hurried).enqueue(Hurried())
    [waits] = pinlater_server.run_worker(Hurried)
    assert waits.waits_for == (MessageWait("event/approval", 1),)
    pinlater_server.advance(3700)
    [expired] = pinlater_server.run_worker(Hurried)
    assert "its give_up_after of 3600 s is over" in expired.status
    assert handle.status().state.name == "FAILED"


# With a fake context


def test_events_can_be_given_to_a_fake_context():
    assert Publish().run(FakeContext(events={"approval": [Approval(by="ada")]})) == "ada"


def test_a_fake_wait_can_time_out():
    context = FakeContext(events={"note": ["one"]}, timed_out=["note"])
    assert Patient().run(context) == ["one", "nothing", "nothing"]
    again = FakeContext(previous=context, events={"note": ["one", "two"]})
    assert Patient().run(again) == ["one", "nothing", "nothing"]


def test_without_an_event_the_job_waits():
    with pytest.raises(JobWaits) as caught:
        Publish().run(FakeContext())
    assert caught.value.waits == (MessageWait("event/approval", 1),)
    assert caught.value.until_ms < ENDLESS_MS


def test_a_job_that_catches_its_wait_cannot_go_on():
    class Stubborn(Job, queue="articles"):
        def run(self, context):
            try:
                context.wait_for("approval")
            except BaseException:
                context.wait_for("approval")

    context = FakeContext()
    with pytest.raises(JobSleeps):
        Stubborn().run(context)
    assert context.interruption.waits == (MessageWait("event/approval", 1),)


def test_a_sleep_beside_a_wait_lasts_to_its_end():
    class Mixed(Job, queue="articles"):
        async def run(self, context):
            async def wait():
                context.wait_for("approval")

            async def sleep():
                context.sleep_for(60, name="minute")

            await asyncio.gather(sleep(), wait())

    context = FakeContext(job := Mixed())
    with pytest.raises(JobSleeps):
        asyncio.run(job.run(context))
    assert not isinstance(context.interruption, JobWaits)


def test_an_event_of_another_type_is_an_error_and_the_next_one_is_for_the_next_wait():
    class Careful(Job, queue="articles"):
        def run(self, context):
            with pytest.raises(EventInvalid, match="not fit Approval: Expected `object`, got `int`; deploy a type"):
                context.wait_for("approval", Approval)
            assert context.wait_for("approval", Approval) == Approval(by="ada")

    Careful().run(FakeContext(events={"approval": [3, Approval(by="ada")]}))


@pytest.mark.parametrize("name", ["x" * 195, "a\0b"])
def test_an_event_that_nobody_can_send_is_not_waited_for(name):
    with pytest.raises(ValueError, match="its name must have 194 at most, and no NUL"):
        FakeContext(Publish()).wait_for(name)
    with pytest.raises(JobSleeps):
        FakeContext(Publish()).wait_for("x" * 194)


def test_a_name_may_not_look_like_a_counted_one():
    with pytest.raises(ValueError, match="without #number"):
        FakeContext(Publish()).wait_for("approval#2")


def test_a_type_that_is_deployed_later_may_allow_the_value_of_an_event():
    class Before(Job, queue="articles"):
        def run(self, context):
            context.wait_for("approval", Approval)

    class After(Job, queue="articles"):
        def run(self, context):
            assert context.wait_for("approval", Approval | int) == 3

    context = FakeContext(Before(), events={"approval": [3]})
    with pytest.raises(EventInvalid):
        Before().run(context)
    After().run(FakeContext(previous=context, events={"approval": [3]}))
