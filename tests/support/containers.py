"""What stands in deploy/: manifests as Kubernetes gets them, the compose file, and the steps of the Containerfile."""

import functools
import re
import shutil
import subprocess
from pathlib import Path

import yaml

from tests.support.kustomize import render

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
INSTALLATIONS = ("sqlite", "fleet")
EXTRAS = ("keda", "monitoring")


@functools.cache
def _kustomize():
    """Return the command that renders a folder; None: there is none, or it is years old, as that of Debian 12."""
    if shutil.which("kustomize") is not None:
        return ("kustomize", "build")
    if shutil.which("kubectl") is not None:
        version = subprocess.run(
            ["kubectl", "version", "--client"], capture_output=True, text=True, timeout=60, check=False
        )
        if re.search(r"Kustomize Version: v[5-9]", version.stdout):
            return ("kubectl", "kustomize")
    return None


@functools.cache
def _rendered(command, name):
    done = subprocess.run([*command, str(KUBERNETES / name)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(name):
    """Return the objects that ``kubectl apply -k`` makes of a folder."""
    command = _kustomize()
    return render(KUBERNETES / name) if command is None else list(yaml.safe_load_all(_rendered(command, name)))


def compose():
    """Return the compose file."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def template(workload):
    """Return the pod template of a Deployment or StatefulSet."""
    return workload["spec"]["template"]


def container(workload):
    """Return its only container."""
    [found] = template(workload)["spec"]["containers"]
    return found


def environment(workload, objects):
    """Return the variables of its container."""
    maps = {one["metadata"]["name"]: one["data"] for one in objects if one["kind"] == "ConfigMap"}
    found = {}
    for source in container(workload).get("envFrom", ()):
        found |= maps[source["configMapRef"]["name"]]
    return found | {entry["name"]: entry["value"] for entry in container(workload).get("env", ())}


def words(workload, objects):
    """Return its command line, with the variables filled in as Kubernetes does."""
    values = environment(workload, objects)
    every = [*container(workload)["command"], *container(workload).get("args", ())]
    return [re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], word) for word in every]


def stages():
    """Return the steps of each stage of the Containerfile, by its name: pairs of instruction and rest."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found, steps = {}, []
    for line in filter(None, text.splitlines()):
        instruction, rest = line.split(maxsplit=1)
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            steps = found[name] = [("FROM", base)]
        else:
            steps.append((instruction, " ".join(rest.split())))
    return found
