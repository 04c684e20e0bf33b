"""Servers of a store, with consumers and workers, under all faults at once: see ``benchmarks/fire``."""

import json
import os
import subprocess
import sys

import pytest

from tests.support import mariadb_service, redis_service
from tests.support.server import ROOT

pytestmark = pytest.mark.timeout(300)

NEEDED = {"mysql": mariadb_service.skip_if_missing, "redis": redis_service.program, "sqlite": lambda: None}
OPTIONS = ("--seed", "1", "--seconds", "8", "--servers", "2", "--shards", "2", "--pace", "0.6", "--pause", "1.5")


@pytest.mark.parametrize(("store", "queues"), [("mysql", "mixed"), ("redis", "mixed"), ("sqlite", "keys")])
def test_nothing_is_lost_doubled_disordered_or_over_a_limit(store, queues, tmp_path):
    chosen = ("--store", store, "--queues", queues)
    NEEDED[store]()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fire", *chosen, *OPTIONS, "--folder", str(tmp_path), "--json"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "supervisor")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["violations"] == []
    assert found["figures"]["jobs stored"] > 100
    assert len(found["figures"]["faults"].split(", ")) > 3
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
