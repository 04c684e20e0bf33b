"""Pools of job processes: the queues that each serves, with their weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pinlater.errors import ConfigError
from pinlater.jobs.options import QUEUE_NAME

DEFAULT = "jobs"
MOST_PROCESSES = 256
MOST_WEIGHT = 100


@dataclass(frozen=True, slots=True)
class JobPool:
    """Describes a pool: job processes that serve the same queues.

    Attributes:
        name: name in logs and process titles, such as ``jobs of email,reindex``.
        processes: number of processes.
        weights: queue -> its share of the dequeues that poll it first; empty: the queues of all job classes,
            in equal shares.
    """

    name: str = DEFAULT
    processes: int = 1
    weights: Mapping[str, int] = field(default_factory=dict)

    def describe(self, all_queues: Sequence[str]) -> str:
        """Describe the pool for the log; ``all_queues`` are those of the job classes."""
        weighted = [name if weight == 1 else f"{name}:{weight}" for name, weight in self.weights.items()]
        queues = weighted or all_queues
        processes = f"{self.processes} process{'' if self.processes == 1 else 'es'}"
        return f"{processes} for queue{'' if len(queues) == 1 else 's'} {', '.join(queues)}"


def parse_pools(texts: Sequence[str], processes: int) -> tuple[JobPool, ...]:
    """Parse the values of ``--queue``: ``NAME[:WEIGHT][,NAME[:WEIGHT]...][=PROCESSES]``.

    Values without a number of processes make up the default pool, which comes first; each other value is a pool.

    Args:
        texts: the values; none: one pool for the queues of all job classes.
        processes: size of the default pool.

    Raises:
        ConfigError: a value is wrong; says what to write instead.
    """
    shared: dict[str, int] = {}
    own: list[JobPool] = []
    seen: set[str] = set()
    for text in texts:
        names, has_count, count = text.partition("=")
        weights = shared if not has_count else {}
        for queue, weight in _weights(text, names):
            if queue in seen:
                raise ConfigError(f"--queue {text}: queue {queue} is given twice; give it once")
            seen.add(queue)
            weights[queue] = weight
        if has_count:
            size = _number(text, count, MOST_PROCESSES, "the number after =")
            own.append(JobPool(f"{DEFAULT} of {','.join(weights)}", size, weights))
    if shared or not own:
        return (JobPool(DEFAULT, processes, shared), *own)
    return tuple(own)


def _weights(text: str, names: str) -> Iterator[tuple[str, int]]:
    for item in names.split(","):
        queue, has_weight, weight = item.partition(":")
        if not QUEUE_NAME.fullmatch(queue):
            raise ConfigError(
                f"--queue {text}: a queue name may only have letters, digits and underscores; "
                "write NAME[:WEIGHT][,NAME[:WEIGHT]...][=PROCESSES]"
            )
        yield queue, _number(text, weight, MOST_WEIGHT, f"the weight of {queue}") if has_weight else 1


def _number(text: str, digits: str, most: int, what: str) -> int:
    if digits.isascii() and digits.isdecimal() and len(digits) < 10 and 1 <= int(digits) <= most:
        return int(digits)
    raise ConfigError(f"--queue {text}: {what} must be a number from 1 to {most}, not {digits!r}")
