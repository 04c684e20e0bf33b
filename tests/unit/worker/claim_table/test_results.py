"""Results in the claim table, as the keeper finds them."""

from pinlater.worker.claim_table.results import ResultArea, read_results


def area(size=64, at=10):
    memory = memoryview(bytearray(b"\xff" * size))
    found = ResultArea(memory)
    found.clear(at)
    return memory, found


def test_results_are_found_by_position():
    memory, results = area()
    assert results.put(3, b"three")
    assert results.put(0, b"")
    assert read_results(memory, 10) == {3: b"three", 0: b""}


def test_what_does_not_fit_changes_nothing():
    memory, results = area()
    assert results.put(0, b"x" * 20)
    before = bytes(memory)
    assert not results.put(1, b"x" * 20)
    assert bytes(memory) == before
    assert read_results(memory, 10) == {0: b"x" * 20}


def test_without_any_room_there_are_none():
    for at in (64, 60):
        memory, results = area(at=at)
        assert not results.put(0, b"")
        assert read_results(memory, at) == {}


def test_at_every_moment_of_a_store_those_before_are_whole():
    memory, results = area()
    results.put(0, b"first")
    before = bytes(memory)
    results.put(1, b"second")
    after = bytes(memory)
    for changed in range(len(memory)):  # the last bytes are written first
        torn = before[:changed] + after[changed:]
        assert read_results(memoryview(torn), 10)[0] == b"first"


def test_the_next_batch_begins_anew():
    memory, results = area()
    results.put(0, b"first")
    results.clear(12)
    assert read_results(memory, 12) == {}
