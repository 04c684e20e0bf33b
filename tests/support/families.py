"""Parents and children of the tests of the store contract: parents in the bench's queue, children in another one."""

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Parent
from pinlater.protocol.messages import PENDING
from tests.support.bench import LEASE_MS, new_job

OTHER = "thumbnails"


def child_of(parent, position=0, *, name="resize", **options):
    return new_job(parent=Parent(parent, name, position), **options)


def running_parent(backend, **options):
    """Return a job that runs, and its claim."""
    return backend.started(b"parent", attempts=5, **options)


def started_child(backend, parent, position=0, *, lease_ms=LEASE_MS, **options):
    """Enqueue a child in the other queue and claim it; return its descriptor."""
    (child,) = backend.put(child_of(parent, position, **options), queue=OTHER)
    assert backend.take_names(queue=OTHER, lease_ms=lease_ms) == [child]
    return child


def told(backend, parent, name="resize"):
    """Return what the parent was told, by position."""
    found = backend.read(parent, name)
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    return {int(one.id): (one.kind, one.payload) for one in found}


def delete_these(backend, *names, state=PENDING, queue=OTHER):
    return backend.delete_these_jobs(queue, [*map(JobDescriptor.parse, names)], state)


def expire(backend):
    """Let all claims expire."""
    backend.clock.advance(LEASE_MS)
    backend.reap()


def unfinished(backend, *parents, limit=100):
    """Return the children of cancelled parents that are still to be cancelled."""
    return sorted(map(str, backend.children_to_cancel([*map(JobDescriptor.parse, parents)], limit)))
