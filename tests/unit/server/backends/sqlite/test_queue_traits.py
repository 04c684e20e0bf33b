"""What the writer remembers about queues does not outlive them."""

import pytest

from pinlater.model.keys import JobKey
from pinlater.model.messages import Parent
from pinlater.server.backends.sqlite.transaction import QueueTraits
from tests.support.bench import new_job

TRAITS = ("keyed", "with_parents", "with_messages", "with_cancelled", "rated")


def remembered(traits):
    return {name for name in TRAITS if getattr(traits, name)}


@pytest.fixture
def traits(store):
    return store.backend._writer._queues


def test_a_deleted_queue_is_forgotten(store, traits):
    store.create_queue("gone")
    [parent] = store.put(new_job(key=JobKey("a", rate="1/s")), queue="gone")
    store.put(new_job(parent=Parent(parent, "join", 0)), queue="gone")
    store.take(queue="gone")
    store.send(parent)
    store.cancel(parent, queue="gone")
    assert remembered(traits) == {*TRAITS}
    store.delete_queue("gone")
    for _ in range(3):
        store.collect_finished(1, 1, 100)
    assert remembered(traits) == set()


def test_one_whose_deletion_was_undone_is_not():
    traits = QueueTraits([(1, 1, 1, 1, 1, 1), (2, 1, 1, 1, 1, 1)])
    for deleted in ({1}, {1}):  # as the first transaction found it, the second one does
        traits.note_deleted(deleted)
        assert traits.keyed == traits.rated == {1, 2}
    traits.note_deleted(set())
    assert traits.keyed == traits.rated == {2}
