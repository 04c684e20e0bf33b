"""The broker: who asks for jobs asks it, never a store.

It parks dequeues that may wait and wakes them when a job is there. It is the place where prefetch buffers and
owned partitions belong.
"""

from pinlater.server.broker.broker import Broker
from pinlater.server.broker.parking import Caller

__all__ = ["Broker", "Caller"]
