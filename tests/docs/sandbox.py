"""Where the code of one page runs: a folder, ports and programs of its own."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.docs.pages import ROOT
from tests.support.ports import free_ports

STAND_INS = ("pip", "make", "git", "systemctl", "systemd-sysusers", "systemd-tmpfiles", "journalctl", "curl", "editor")
_PROGRAMS = {
    "pinlater": "pinlater.cli",
    "pinlater-server": "pinlater.server.program",
    "pinlater-worker": "pinlater.worker.program",
}
_PORTS = ("9010", "9011", "9999", "9998")
_HOSTS = re.compile(r"\bqueue\d\.example\.com\b")
_FOLDERS = re.compile(r"(?<![\w.])/(etc/pinlater|run/pinlater|var/lib|srv)\b")
_OUTSIDE = re.compile(r"(?<![\w.:/])/(etc|home|root|run|srv|var)/")
_READY = {"pinlater-server": " ready on ", "pinlater-worker": "pinlater-worker "}
_LONG_RUNNING = re.compile(
    r"(pinlater-server|pinlater-worker)\b(?!.*(--burst|--check|--list-settings|--help|install-units))"
)
_PLAIN = re.compile(r"pinlater (?:[\w ./:=,@%+-]|'[^']*')*")
"""A command of the tool in which there is nothing for a shell to do but to part it into words."""
SECONDS = 90


class Sandbox:
    """Runs the commands of a page.

    Args:
        folder: for everything.
        proxy: address of what answers for the World Wide Web.
        tool: the ``LoadedTool``, which runs commands of the tool that need no shell.
        set_here: sets a variable of the environment of the Python blocks, too.

    Attributes:
        folder: in which commands are run.
        moved: text of the page -> what stands for it here, beside ports, folders and hosts.
        at_the_end: what is to be closed after the programs.
    """

    def __init__(self, folder, proxy, tool, set_here=lambda *_: None):
        self.folder = folder / "here"
        self._root = folder / "root"
        self._ports = dict(zip(_PORTS, map(str, free_ports(len(_PORTS))), strict=True))
        self.moved = {"0.0.0.0": "127.0.0.1"}
        self._running = {}
        self.at_the_end = contextlib.ExitStack()
        self._set_here = set_here
        self._tool = tool
        self._logs = 0
        for path in (self.folder, *map(self._root.joinpath, ("etc/pinlater", "run/pinlater", "var/lib", "srv"))):
            path.mkdir(parents=True)
        shutil.copy(Path(__file__).with_name("ca.pem"), self._root / "etc/pinlater")
        self.settings = {
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "PINLATER_THRIFT_PORT": self._ports["9010"],
            "PINLATER_OSTRICH_PORT": self._ports["9999"],
            "PINLATER_SERVERS": f"127.0.0.1:{self._ports['9010']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "supervisor"), str(self.folder)]),
            "PATH": os.pathsep.join(
                [str(self._programs(folder / "bin")), os.path.dirname(sys.executable), os.environ["PATH"]]
            ),
            "http_proxy": proxy,
            "no_proxy": "127.0.0.1,localhost",
            "COLUMNS": "100",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        foreign = {key for key in os.environ if key.startswith("PINLATER_")}
        self._environment = {key: value for key, value in os.environ.items() if key not in foreign} | self.settings
        for key in self.settings.keys() - {"PATH", "HOME", "PYTHONPATH"}:
            set_here(key, self.settings[key])

    def _set(self, key, value):
        self._environment[key] = value
        self._set_here(key, value)

    @staticmethod
    def _programs(folder):
        folder.mkdir()
        calls = {name: f"-m {module}" for name, module in _PROGRAMS.items()}
        calls |= {name: f"-m tests.docs.stand_ins {name}" for name in STAND_INS}
        for name, call in calls.items():
            (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {call} "$@"\n')
            (folder / name).chmod(0o755)
        return folder

    def adapted(self, text):
        """Return a text of the page with the ports, folders and hosts of this sandbox."""
        for old, new in self.moved.items():
            text = text.replace(old, new)
        for old, new in self._ports.items():
            text = re.sub(rf"\b{old}\b", new, text)
        return _FOLDERS.sub(rf"{self._root}/\1", _HOSTS.sub("127.0.0.1", text))

    def _harmless(self, command):
        """Return a command for this sandbox; what it leaves on the machine would be there in the next run."""
        text = self.adapted(command)
        assert not _OUTSIDE.search(text), f"$ {command}\nnames a folder of the machine"
        return text

    def write(self, name, text):
        """Write a file of the page; return its path."""
        path = Path(self.adapted(name))
        path = path if path.is_absolute() else self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.adapted(text))
        return path

    def run(self, command, is_enough):
        """Run a command; return what it wrote. A program that goes on has written enough when ``is_enough`` says so."""
        if command.startswith("export "):
            for pair in shlex.split(self.adapted(command))[1:]:
                self._set(*pair.split("=", 1))
            return ""
        if found := _LONG_RUNNING.match(command):
            return self._start(found[1], command, is_enough)
        self.ensure_server(command)
        log = self._new_log()
        status = self._run(self._harmless(command), log)
        output = log.read_text()
        assert status == 0, f"$ {command}\nexit status {status}\n{output}"
        return output

    def _run(self, text, log):
        """Run a command, with its output in a file, not a pipe, which what it leaves running would keep open."""
        if _PLAIN.fullmatch(text):
            return self._tool.run(shlex.split(text)[1:], self.folder, self._environment, log, SECONDS)
        with log.open("w") as file:
            return subprocess.run(
                ["bash", "-c", text], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                cwd=self.folder, env=self._environment, timeout=SECONDS, check=False,
            ).returncode  # fmt: skip

    def ensure_server(self, command="pinlater"):
        """Start a server if a command needs one and none runs."""
        if "pinlater-server" not in self._running and re.match(r"(pinlater|pinlater-worker|python)\b", command):
            self._start("pinlater-server", "pinlater-server", lambda _: True)

    def _start(self, program, command, is_enough):
        key = program + "".join(re.findall(r" --port \d+", command))
        if key == "pinlater-server":
            self.stop("pinlater-worker")  # which would wait for another one
        self.stop(key)
        if program == "pinlater-worker":
            self.ensure_server()
        log = self._new_log()
        with log.open("w") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {self._harmless(command)}"], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                cwd=self.folder, env=self._environment,
            )  # fmt: skip
        self._running[key] = process
        deadline = time.monotonic() + SECONDS
        while _READY[program] not in log.read_text() or not is_enough(log.read_text()):
            assert process.poll() is None, f"$ {command}\nhas ended with {process.returncode}:\n{log.read_text()}"
            assert time.monotonic() < deadline, f"$ {command}\nhas not said what it should:\n{log.read_text()}"
            time.sleep(0.02)
        return log.read_text()

    def _new_log(self):
        self._logs += 1
        return self.folder.parent / f"output-{self._logs}"

    def stop(self, key):
        """End a program that runs, if it does."""
        process = self._running.pop(key, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait(SECONDS)
            raise

    def close(self):
        """End everything, workers first."""
        with self.at_the_end:
            for key in sorted(self._running, reverse=True):
                self.stop(key)
