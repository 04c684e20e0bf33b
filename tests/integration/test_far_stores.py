"""A store that is far away, as real servers open it: no job is handed out before its time by the store's clock."""

import asyncio
import contextlib
import json
import time

import pytest

from pinlater.server.backends.records import Claim
from pinlater.server.config.loader import load_settings
from pinlater.server.metrics import Metrics
from pinlater.server.stores import open_store
from tests.support.bench import QUEUE, new_job
from tests.support.network import Network
from tests.support.stores import SHARED_STORES


@pytest.fixture(params=SHARED_STORES)
def options(request, tmp_path):
    """What a server needs for an empty store on this machine, by whose clock we can tell the time, too."""
    return SHARED_STORES[request.param](tmp_path)


def master_of(document):
    """Return where the only shard of a file is."""
    [entry] = document.get("shards") or document.values()
    return (entry.get("shardConfig") or entry)["master"]


@contextlib.contextmanager
def far_away(options, file, *, there, back):
    """Lead a server to its store through a slow network."""
    with open(options["BACKEND_CONFIG"]) as written:
        document = json.load(written)
    master = master_of(document)
    with Network(master["port"], there=there, back=back) as network:
        master["port"] = network.port
        file.write_text(json.dumps(document))
        yield options | {"BACKEND_CONFIG": str(file)}


async def early_by(options, *, count=120):
    """Return by how many milliseconds each of some jobs was in its caller's hands before its time."""
    store = await open_store(load_settings(None, {}, options), Metrics())
    beside = [asyncio.create_task(task) for task in store.tasks]
    await store.backend.create_queue(QUEUE)
    first = int(time.time() * 1000) + 700
    await store.backend.enqueue_jobs(QUEUE, [new_job(run_after_ms=first + 5 * at) for at in range(count)])
    early = []
    async with asyncio.timeout(60):
        while len(early) < count:
            found = await store.backend.dequeue_jobs(QUEUE, 100, Claim("host:1:1:worker:1", 60_000))
            now = time.time() * 1000
            early += [job.run_after_ms - now for job in found.jobs]
    for task in beside:
        task.cancel()
    await asyncio.gather(*beside, return_exceptions=True)
    await store.backend.close()
    return early


@pytest.mark.parametrize(("there", "back"), [(0.06, 0.0), (0.03, 0.03), (0.0, 0.06)])
def test_no_job_is_early_however_long_the_way_to_the_store_is(options, tmp_path, there, back):
    with far_away(options, tmp_path / "far.json", there=there, back=back) as led:
        assert max(asyncio.run(early_by(led))) <= 0
