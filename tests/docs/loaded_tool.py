"""The command-line tool, loaded once: to load it takes longer than most commands of the pages do."""

import json
import os
import signal
import subprocess
import sys

from tests.docs.pages import ROOT


class LoadedTool:
    """A process that has loaded ``pinlater``; each command runs in a fork of it and ends as a program does."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.docs.loaded_tool"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, words, folder, environment, log, seconds):
        """Run a command in a folder and an environment, with its output in a file; return its exit status."""
        print(json.dumps([words, str(folder), environment, str(log), seconds]), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def close(self):
        with self._process:
            self._process.stdin.close()


def _serve():
    from pinlater.cli import main
    from pinlater.client import Client  # noqa: F401 - which commands load when they need it

    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for request in requests:
        child = os.fork()
        if child == 0:
            _become(*json.loads(request))
            main()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)


def _become(words, folder, environment, log, seconds):
    """Turn this process into one that has just started."""
    signal.alarm(seconds)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["pinlater", *words]
    sys.path[0:1] = [folder, *environment["PYTHONPATH"].split(os.pathsep)]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)


if __name__ == "__main__":
    _serve()
