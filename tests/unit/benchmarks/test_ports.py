"""Ports that benchmarks and tests give to programs."""

import subprocess
import sys
from contextlib import ExitStack

from benchmarks.ports import free_ports

PROGRAM = "from benchmarks.ports import free_ports; print(*free_ports(3), flush=True); input()"


def test_no_port_is_returned_again_soon():
    assert len(set(free_ports(100)) | set(free_ports(100))) == 200


def test_processes_get_ports_of_different_blocks():
    with ExitStack() as stack:
        programs = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for _ in range(10)
        ]
        ports = [{int(port) // 400 for port in program.stdout.readline().split()} for program in programs]
        for program in programs:
            program.communicate("\n")
    blocks = set.union(*ports)
    assert len(blocks) == len(programs), "each has a block, and no other process has the same"
    assert free_ports(1)[0] // 400 not in blocks
