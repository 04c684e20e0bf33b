"""The broker: hands out jobs, parks dequeues that may wait, and wakes them when jobs become claimable.

The service dequeues through it, never from a store. Prefetch buffers and owned partitions would belong here.
"""

from pinlater.server.broker.broker import Broker
from pinlater.server.broker.parking import Caller

__all__ = ["Broker", "Caller"]
