"""Results and failures in the claim table, as the keeper finds them."""

from pinlater.worker.claim_table.outcomes import OutcomeArea, read_failures, read_results


def area(size=70, at=10):
    memory = memoryview(bytearray(b"\xff" * size))
    found = OutcomeArea(memory, list)
    found.clear(at)
    return memory, found


def test_results_are_found_by_position():
    memory, outcomes = area()
    assert outcomes.put_result(3, b"three")
    assert outcomes.put_result(0, b"")
    assert read_results(memory, 10) == {3: b"three", 0: b""}
    assert read_failures(memory, 10) == {}


def test_failures_are_found_by_position_beside_results():
    memory, outcomes = area()
    outcomes.put_failure(3, b"three")
    assert outcomes.put_result(1, b"one")
    outcomes.put_failure(0, b"")
    assert read_failures(memory, 10) == {3: b"three", 0: b""}
    assert read_results(memory, 10) == {1: b"one"}


def test_what_does_not_fit_changes_nothing():
    memory, outcomes = area()
    assert outcomes.put_result(0, b"x" * 20)
    before = bytes(memory)
    assert not outcomes.put_result(1, b"x" * 20)
    assert bytes(memory) == before
    assert read_results(memory, 10) == {0: b"x" * 20}


def test_without_any_room_there_are_none():
    for at in (64, 60):
        memory, outcomes = area(at=at)
        assert not outcomes.put_result(0, b"")
        assert outcomes.most_failure_bytes < 0
        assert read_results(memory, at) == {}
        assert read_failures(memory, at) == {}


def test_a_failure_takes_the_room_of_older_ones_but_not_of_results():
    memory, outcomes = area()
    assert outcomes.put_result(0, b"x" * 10)
    outcomes.put_failure(1, b"y" * 10)
    outcomes.put_failure(2, b"z" * 11)
    assert read_failures(memory, 10) == {2: b"z" * 11}
    most = outcomes.most_failure_bytes
    outcomes.put_failure(3, b"w" * most)
    assert read_failures(memory, 10) == {3: b"w" * most}
    assert read_results(memory, 10) == {0: b"x" * 10}


def test_a_result_takes_the_room_of_failures():
    memory, outcomes = area()
    outcomes.put_failure(1, b"y" * 20)
    assert outcomes.put_result(0, b"x" * 30)
    assert read_failures(memory, 10) == {}
    assert read_results(memory, 10) == {0: b"x" * 30}


def moments_of(change, memory, *, is_forward):
    """Yield the memory as it is at every moment of a change that copies its bytes forward or backward."""
    before = bytes(memory)
    change()
    after = bytes(memory)
    first, last = (after, before) if is_forward else (before, after)
    for at in range(len(memory)):
        yield memoryview(first[:at] + last[at:])


def test_at_every_moment_of_a_store_those_before_are_whole():
    memory, outcomes = area()
    outcomes.put_result(0, b"first")
    for torn in moments_of(lambda: outcomes.put_result(1, b"second"), memory, is_forward=False):
        assert read_results(torn, 10)[0] == b"first"


def test_at_every_moment_of_a_failure_those_before_are_whole():
    memory, outcomes = area()
    outcomes.put_failure(0, b"first")
    for torn in moments_of(lambda: outcomes.put_failure(1, b"second"), memory, is_forward=True):
        found = read_failures(torn, 10)
        assert found[0] == b"first"
        assert found.get(1) in {None, b"second"}


def test_the_next_batch_begins_anew():
    memory, outcomes = area()
    outcomes.put_result(0, b"first")
    outcomes.put_failure(1, b"second")
    outcomes.clear(12)
    assert read_results(memory, 12) == {}
    assert read_failures(memory, 12) == {}
