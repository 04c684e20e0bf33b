"""killed_everywhere: every point once, and the same end."""

import asyncio
from collections import Counter

import pytest

from pinlater import Constant, Job, retrying
from pinlater.testing import killed_everywhere

done = []


@pytest.fixture(autouse=True)
def forget():
    done.clear()


class Album(Job, attempts=2):
    cursor: int = 0

    async def run(self, context):
        photos = context.step("list", lambda: done.append("list") or ["a", "b"])
        for photo in photos:
            context.step("resize", done.append, f"resize {photo}")
        async with asyncio.TaskGroup() as group:
            for photo in photos:
                group.create_task(context.step("upload", upload, photo))
        context.sleep_for(3600, name="for approval")
        if context.step("publish", retrying(publish, attempts=2, backoff=Constant(60))):
            done.append("end")


async def upload(photo):
    await asyncio.sleep(0)
    done.append(f"upload {photo}")


def publish():
    done.append("publish")
    if done.count("publish") == 1:
        raise OSError("not now")
    return True


EXACT = ["list", "resize a", "resize b", "upload a", "upload b", "publish", "publish", "end"]


def test_a_workflow_comes_to_the_same_end_wherever_it_is_killed():
    places = []
    for client in killed_everywhere(Album):
        done.clear()
        client.enqueue(Album())
        client.assert_succeeded()
        places.append(client.killed_at)
        extra = Counter(done) - Counter(EXACT)
        assert not Counter(EXACT) - Counter(done), client.killed_at
        assert extra.total() <= 2, (client.killed_at, done)
        if client.killed_at is None:
            assert done == EXACT
        elif "after save" in client.killed_at:
            assert extra.keys() <= {"upload b"}, "that runs beside another one which is saved"
    # Saved are: list, two of resize, two of upload, the record before the sleep, the failure and the end of publish.
    # Attempts end in the sleep, in the backoff of publish, and for good.
    assert places == [
        *[f"{when} save {n}" for n in range(1, 7) for when in ("before", "after")],
        "at the end of attempt 1",
        "before save 7",
        "after save 7",
        "at the end of attempt 1",
        "before save 8",
        "after save 8",
        "at the end of attempt 1",
        None,
    ]


class Deaf(Job, attempts=2):
    def run(self, context):
        for n in range(3):
            try:
                context.step("a", done.append, n)
            except BaseException:
                continue


def test_a_job_that_catches_the_kill_is_dead_all_the_same():
    client = next(killed_everywhere(Deaf))
    client.enqueue(Deaf())
    client.assert_succeeded()
    assert [outcome.ending for outcome in client.outcomes] == ["failed", "succeeded"]
    assert client.outcomes[0].status == "its process was killed before save 1\n"


class Once(Job, attempts=1):
    def run(self, context):
        pass


def test_a_job_without_an_attempt_to_spare_has_failed():
    client = next(killed_everywhere(Once))
    client.enqueue(Once())
    with pytest.raises(AssertionError, match="killed at the end of attempt 1"):
        client.assert_succeeded()


def test_what_a_test_raises_within_a_job_comes_through():
    class Fails(Job):
        def run(self, context):
            pytest.fail("seen")

    for client in killed_everywhere(Fails):
        with pytest.raises(pytest.fail.Exception, match="seen"):
            client.enqueue(Fails())
