"""The steps of the Containerfile, carried out without a container engine, and the programs run as they are there.

In namespaces of their own: process 1, a user without a name, a root file system that is read-only, no capabilities.
"""

import json
import os
import shlex
import shutil
import signal
import site
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from jobs_example import MakeThumbnails
from pinlater import Client, JobState
from tests.support.containers import ROOT, compose, stages
from tests.support.ports import free_ports
from tests.support.server import wait_for

pytestmark = pytest.mark.timeout(300)

PREFIX = "/opt/pinlater"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL"]


def can_isolate():
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    return subprocess.run([*NAMESPACES, "true"], capture_output=True, timeout=60, check=False).returncode == 0


class Image:
    """What the Containerfile builds, in a folder that is mounted as /mnt where its programs run.

    Its packages come from the environment of the tests, except PinLater itself, which is installed as the file says.
    """

    def __init__(self, folder):
        self._mounted = folder / "mnt"
        self._context = self._mounted / "src"
        for name in ("src", "srv", "data", "python", "packages"):
            (self._mounted / name).mkdir(parents=True)
        self._copy("build", "/src/", self._context)
        self._install()
        self._copy("jobs", "/srv/", self._mounted / "srv")
        self._copy("pinlater", f"{PREFIX}/", self._mounted / "pinlater")

    @property
    def data(self):
        """The folder that its programs see as /mnt/data."""
        return self._mounted / "data"

    def _copy(self, stage, destination, target):
        """Carry out the COPY steps of a stage whose destination begins so."""
        found = [
            shlex.split(rest) for step, rest in stages()[stage] if step == "COPY" and not rest.startswith("--from")
        ]
        copies = [(source, paths[-1]) for paths in found for source in paths[:-1] if paths[-1].startswith(destination)]
        assert copies
        for source, at in copies:
            to = target / at.removeprefix(destination)
            to = to / Path(source).name if at.endswith("/") else to
            to.parent.mkdir(parents=True, exist_ok=True)
            ignored = shutil.ignore_patterns("__pycache__")
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, to, ignore=ignored)
            else:
                shutil.copy(ROOT / source, to)

    def _install(self):
        """Make the environment, and install PinLater from the copied files alone, without any network."""
        packages = f"/mnt/pinlater/lib/{PYTHON}/site-packages"
        pip = [sys.executable, "-m", "pip", "--python", "/mnt/pinlater/bin/python", "install", "--quiet", "--no-deps"]
        steps = (
            [f"/mnt/python/bin/{PYTHON}", "-m", "venv", "--without-pip", "/mnt/pinlater"],
            ["sh", "-c", f"echo /mnt/packages > {packages}/packages.pth"],
            [*pip, "--ignore-installed", "--no-index", "--no-build-isolation", "--compile", "/mnt/src"],
        )
        done = self._run("\n".join(map(shlex.join, steps)), capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _run(self, script, run=subprocess.run, **options):
        lines = (
            "mount --make-rprivate /",
            f"mount --bind {shlex.quote(str(self._mounted))} /mnt",
            f"mount --bind {shlex.quote(sys.base_prefix)} /mnt/python",
            f"mount --bind {shlex.quote(site.getsitepackages()[0])} /mnt/packages",
            "mount -o remount,bind,ro /mnt/packages",
            "export PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH=/mnt/python/lib",
            script,
        )
        return run([*NAMESPACES, "sh", "-ec", "\n".join(lines)], **options)

    def run(self, command, environment, **options):
        """Run a program as it is run in a container of compose.yaml."""
        values = {
            "PATH": "/mnt/pinlater/bin:/usr/bin:/bin",
            "HOME": "/nonexistent",
            "LD_LIBRARY_PATH": "/mnt/python/lib",
            "PINLATER_DATA_DIR": "/mnt/data",
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        }
        user = ["setpriv", "--reuid=10001", "--regid=10001", "--clear-groups", "--no-new-privs"]
        user += ["--inh-caps=-all", "--bounding-set=-all"]
        lines = (
            "mount -t proc proc /proc",
            "mount -t tmpfs -o mode=1777 tmpfs /tmp",
            "mount --bind /mnt/data /mnt/data",
            "chown 10001:10001 /mnt/data",
            "mount -o remount,bind,ro /mnt",
            "mount -o remount,bind,ro /",
            "cd /mnt/srv",
            "exec " + shlex.join([*user, "env", "-i", *(f"{key}={value}" for key, value in values.items()), *command]),
        )
        return self._run("\n".join(lines), **options)

    def ask(self, command, environment=None):
        """Run a program to its end; return its exit status and what it wrote."""
        done = self.run(command, environment or {}, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def is_healthy(self, environment):
        return self.ask(["python", "/mnt/pinlater/share/pinlater/healthcheck.py"], environment)


class Service:
    """A running service of compose.yaml, whose process 1 is the program."""

    def __init__(self, image, command, environment, log_file):
        self._log_file = log_file
        self.environment = environment
        with log_file.open("w") as log:
            self.process = image.run(command, environment, run=subprocess.Popen, stdout=log, stderr=log)

    @property
    def log(self):
        return self._log_file.read_text()

    def stop(self, seconds):
        [first] = psutil.Process(self.process.pid).children()
        first.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()  # and with it all that it has started
            self.process.wait(10)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    if not can_isolate():
        pytest.skip("namespaces need root, unshare and setpriv")
    return Image(tmp_path_factory.mktemp("image"))


@pytest.fixture
def start(image, tmp_path):
    services = []

    def start(name, **environment):
        service = compose()["services"][name]
        values = service["environment"] | environment
        services.append(Service(image, service["command"], values, tmp_path / f"{name}.log"))
        return services[-1]

    yield start
    for service in services:
        service.end()


SURROUNDINGS = """
import json, os, tempfile
def writable(folder):
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
places = ["/mnt/data", "/tmp", "/", "/etc", "/mnt", "/mnt/srv", "/mnt/pinlater", "/var/tmp"]
print(json.dumps([os.getpid(), os.getuid(), int(status["CapEff"], 16), int(status["CapBnd"], 16),
                  [place for place in places if writable(place)]]))
"""


def test_programs_are_as_confined_as_in_a_container(image):
    status, text = image.ask(["python", "-c", SURROUNDINGS])
    assert (status, json.loads(text)) == (0, [1, 10001, 0, 0, ["/mnt/data", "/tmp"]]), text


def test_the_image_has_the_programs_and_neither_pip_nor_the_source_tree(image):
    for name in ("pinlater", "pinlater-server", "pinlater-worker"):
        assert image.ask([name, "--version"])[0] == 0
    assert image.ask(["python", "-c", "import pinlater; print(pinlater.__file__)"])[1].startswith("/mnt/pinlater/lib/")
    assert image.ask(["test", "-e", "/mnt/pinlater/bin/pip"])[0] == 1


def test_server_and_worker_run_and_stop_as_compose_starts_them(image, start):
    port, admin, health = free_ports(3)
    server = start("server", PINLATER_THRIFT_PORT=port, PINLATER_OSTRICH_PORT=admin)
    wait_for(lambda: image.is_healthy(server.environment)[0] == 0, 60, lambda: server.log)
    worker = start("worker", PINLATER_SERVERS=f"127.0.0.1:{port}", PINLATER_WORKER_HEALTH=f"127.0.0.1:{health}")
    wait_for(lambda: image.is_healthy(worker.environment)[0] == 0, 60, lambda: worker.log)
    with Client(f"127.0.0.1:{port}") as client:
        photo = "/mnt/srv/jobs_example/photos/cat.jpg"
        job = client.enqueue(MakeThumbnails(photo=photo, folder="/tmp"))
        wait_for(lambda: job.status().state is JobState.SUCCEEDED, 60, lambda: f"{job.status()}\n{worker.log}")
        grace = {name: float(one["stop_grace_period"][:-1]) for name, one in compose()["services"].items()}
        assert worker.stop(grace["worker"]) == 0, worker.log
        assert client.workers() == []
    assert image.is_healthy(worker.environment)[0] == 1
    assert server.stop(grace["server"]) == 0, server.log
    status, text = image.is_healthy(server.environment)
    assert (status, f"http://127.0.0.1:{admin}/readyz" in text) == (1, True)


def test_a_worker_without_a_server_is_alive_and_stops(image, start):
    port, health = free_ports(2)
    worker = start("worker", PINLATER_SERVERS=f"127.0.0.1:{port}", PINLATER_WORKER_HEALTH=f"127.0.0.1:{health}")
    wait_for(lambda: image.is_healthy(worker.environment)[0] == 0, 60, lambda: worker.log)
    assert worker.stop(45) == 0, worker.log


@pytest.mark.parametrize("name", ["server", "worker"])
def test_a_stop_that_comes_while_it_starts_ends_it(image, start, name):
    folder = image.data / f"slow-{name}"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    # The last module that is imported before the supervisor handles signals. It waits for the writer of the pipe.
    (folder / "setproctitle.py").write_text("from pathlib import Path\nPath(__file__).with_name('pipe').read_text()\n")
    service = start(name, PYTHONPATH=f"/mnt/data/{folder.name}", PINLATER_SERVERS="127.0.0.1:1")
    with (folder / "pipe").open("w"):
        assert service.stop(45) == 0, service.log
    assert "started" not in service.log
