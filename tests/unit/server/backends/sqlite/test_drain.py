"""What a drain costs for each job: jobs that use nothing special pay for nothing special."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.server.backends.sqlite.ack import SqliteAckRequest, ack_jobs
from pinlater.server.backends.sqlite.claim import SqliteClaimRequest, claim_jobs
from pinlater.server.backends.sqlite.queries import by_ids
from tests.support.counting import functions_called, instructions
from tests.support.examples import examples
from tests.unit.server.backends.sqlite.memory_store import CLAIMS, NOW, PREFIXES, Store, jobs

CLAIM = CLAIMS[0]
STATES = ("pending", "claimed", "finished", "settled")


class Drain:
    """Jobs of a queue that are claimed and acked, a batch at a time."""

    def __init__(self, count, *, of_others=0):
        """Store jobs; behind each of them, so many of another queue."""
        job, other = ((queue_id, 0, 1, NOW, "", b"body", 2) for queue_id in (1, 2))
        self.store = Store([job, *[other] * of_others] * count)
        self.acks = []

    def dequeue(self, count):
        """Claim jobs in one dequeue; return it."""
        request = SqliteClaimRequest(1, PREFIXES, count, 10**6, CLAIM, 1000, True, None)
        [found] = claim_jobs(self.store.transaction, [request])
        return found

    def claim(self, count):
        """Claim jobs, to be acked."""
        found = self.dequeue(count)
        assert len(found.jobs) == count
        addresses = [JobDescriptor.parse(job.descriptor) for job in found.jobs]
        self.acks = [StoredAck(address, CLAIM, "", 0, False) for address in addresses]

    def ack(self):
        """Acknowledge what the last dequeue got, in one call."""
        [settled] = ack_jobs(self.store.transaction, [SqliteAckRequest(1, self.acks, [])])
        assert settled.changed == len(self.acks)


def costs(drain):
    """Return the instructions of SQLite's machine for a claim of a hundred jobs, and for their acks."""
    connection = drain.store.connection
    return instructions(connection, lambda: drain.claim(100)), instructions(connection, drain.ack)


@pytest.mark.parametrize("of_others", [0, 1])
def test_a_batch_is_claimed_with_three_statements_and_acked_with_one(of_others):
    drain = Drain(30, of_others=of_others)
    drain.claim(20)
    assert len(drain.store.statements) == 3
    drain.ack()
    assert len(drain.store.statements) == 4


def test_no_function_is_called_for_each_job():
    small, large = Drain(20), Drain(200)
    assert functions_called(lambda: small.dequeue(10)) == functions_called(lambda: large.dequeue(100))
    small.claim(10)
    large.claim(100)
    assert functions_called(small.ack) == functions_called(large.ack)


def test_indexes_of_what_few_jobs_use_cost_the_others_little():
    """For each of them, the claim and the ack of a job look at a column or two before and after the change."""
    drain, lean = Drain(100), Drain(100)
    indexes = {name for (name,) in lean.store.connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    rare = {name for name in indexes if name.startswith("jobs_")} - {f"jobs_{state}" for state in STATES}
    for name in rare:
        lean.store.connection.execute(f"DROP INDEX {name}")
    for usual, least in zip(costs(drain), costs(lean), strict=True):
        assert usual - least <= 5.5 * 100 * len(rare)


def test_jobs_that_were_stored_together_are_not_listed():
    together, mixed = Drain(120), Drain(120, of_others=1)
    for in_a_row, listed in zip(costs(together), costs(mixed), strict=True):
        assert in_a_row <= listed - 5 * 100


@examples(60)
@given(st.lists(jobs, max_size=12), st.lists(st.integers(0, 13), max_size=6), st.booleans())
def test_a_statement_about_ids_changes_these_jobs_only(rows, ids, is_sorted):
    if is_sorted and ids:  # without gaps, perhaps but for one
        ids = [*range(min(ids), min(ids) + len(ids) - 1), max(ids)]
    statement, values = by_ids("succeed_jobs"), (1, NOW, None, 1)
    found, expected = Store(rows), Store(rows)
    changed = found.transaction.run_on(statement, values, ids)
    assert changed == expected.transaction.run(statement.listed, (*values, str(ids)))
    assert found.content() == expected.content()
