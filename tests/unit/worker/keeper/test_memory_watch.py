"""What a worker remembers of the memory of its job processes."""

from pinlater.model.workers import WorkerProcess
from pinlater.worker.keeper.memory_watch import MemoryWatch


def process(pid, memory, ended, started_ms=1):
    return WorkerProcess(pid, started_ms=started_ms, memory_bytes=memory, ended=ended)


def starts(watch, *processes):
    return [each.memory_at_start_bytes for each in watch.noted(processes)]


def test_the_start_is_when_the_first_job_has_ended():
    watch = MemoryWatch()
    assert starts(watch, process(7, 100, 0)) == [100]
    assert starts(watch, process(7, 300, 1)) == [300]
    assert starts(watch, process(7, 900, 50)) == [300]


def test_another_process_with_the_same_id_starts_anew():
    watch = MemoryWatch()
    starts(watch, process(7, 300, 1))
    assert starts(watch, process(7, 500, 1, started_ms=2)) == [500]


def test_processes_that_have_ended_are_forgotten():
    watch = MemoryWatch()
    starts(watch, process(7, 300, 1))
    starts(watch)
    assert starts(watch, process(7, 500, 9)) == [500]


def test_unknown_memory_stays_unknown():
    assert starts(MemoryWatch(), process(7, None, 5)) == [None]
