"""The program that runs benchmarks."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support import mariadb_service, redis_service

ROOT = Path(__file__).parents[2]

OF_STORES_WITH_SERVERS = ("outages", "idle_fleet", "many_shards", "queue_shards", "fleet_drain", "vain")


def run_benchmarks(*arguments, tmp_path, rounds=1, scale="0.002"):
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks",
            *arguments,
            "--scale",
            scale,
            "--rounds",
            str(rounds),
            "--folder",
            str(tmp_path),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "supervisor")])},
        capture_output=True,
        text=True,
        check=False,
    )


def skip_without_server_of(store):
    if store != "sqlite":
        {"mysql": mariadb_service.skip_if_missing, "redis": redis_service.program}[store]()
