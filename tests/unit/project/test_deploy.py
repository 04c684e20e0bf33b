"""The images and manifests of deploy/ are valid, and name options, settings, pages and metrics that there are."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
from click.testing import CliRunner

import jobs_example
from pinlater.environment import unread_variables
from pinlater.server.admin.pages import MonitoringPages
from pinlater.server.backends.redis import read_shards
from pinlater.server.config.loader import load_settings
from pinlater.server.metrics import Metrics
from pinlater.server.program import _STOP_GRACE_SECONDS
from pinlater.server.program import main as server
from pinlater.worker.boot import EXIT_SECONDS
from pinlater.worker.program import worker
from tests.support.containers import (
    DEPLOY,
    EXTRAS,
    INSTALLATIONS,
    KUBERNETES,
    ROOT,
    compose,
    container,
    environment,
    rendered,
    stages,
    template,
    words,
)
from tests.support.monitoring import metrics_in, program

VERSIONS = ("1.29", "1.32", "1.37")
KINDS = {one.job_options.queue: one for one in map(vars(jobs_example).get, jobs_example.__all__)}
PAGES = set(MonitoringPages(None).by_path)
WORKER_PAGES = {"/livez", "/readyz", "/metrics"}


@pytest.fixture(scope="module", params=INSTALLATIONS)
def objects(request):
    return rendered(request.param)


def of_kind(objects, *kinds):
    return [one for one in objects if one["kind"] in kinds]


def workloads(objects):
    found = of_kind(objects, "Deployment", "StatefulSet")
    assert len(found) == 1 + len(KINDS)
    return found


def is_server(workload):
    return template(workload)["metadata"]["labels"]["app.kubernetes.io/component"] == "server"


def seconds(text):
    assert text.endswith("s")
    return float(text[:-1])


def options_of(command):
    name, *arguments = command
    assert name == "pinlater-worker"
    with worker.make_context(name, arguments) as context:
        return context.params


# Kubernetes


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid(objects, version):
    for one in objects:
        kubernetes_validate.validate(one, version, strict=True)


def test_a_mistake_is_found():
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"port": 9}}, "1.32", strict=True
        )


def test_nobody_can_do_more_than_needed(objects):
    for workload in workloads(objects):
        pod, inner = template(workload)["spec"], container(workload)["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert inner == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= container(workload)["resources"]["requests"].keys()
        assert "/tmp" in {mount["mountPath"] for mount in container(workload)["volumeMounts"]}


def test_variables_of_services_are_not_taken_for_settings(objects):
    """PINLATER_PORT and the like, which Kubernetes would set since a Service is called pinlater."""
    assert all(template(workload)["spec"]["enableServiceLinks"] is False for workload in workloads(objects))


def test_probes_ask_for_pages_that_there_are(objects):
    for workload in workloads(objects):
        pages = PAGES if is_server(workload) else WORKER_PAGES
        ports = {port["name"]: port["containerPort"] for port in container(workload)["ports"]}
        paths = {}
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            ask = container(workload)[name]["httpGet"]
            assert ask["port"] == "metrics"
            paths[name] = ask["path"]
        assert paths == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
        notes = template(workload)["metadata"]["annotations"]
        assert {*paths.values(), notes["prometheus.io/path"]} <= pages
        assert notes["prometheus.io/port"] == str(ports["metrics"])


def test_the_ports_are_those_that_the_programs_listen_on(objects):
    for workload in workloads(objects):
        ports = {port["name"]: port["containerPort"] for port in container(workload)["ports"]}
        values = environment(workload, objects)
        if is_server(workload):
            settings = load_settings(None, values, {})
            assert ports == {"thrift": settings.thrift_port, "metrics": settings.admin_port}
            assert settings.thrift_host == settings.admin_host == "0.0.0.0"
        else:
            assert values["PINLATER_WORKER_HEALTH"] == f"0.0.0.0:{ports['metrics']}"
            assert values["PINLATER_SERVERS"] == "pinlater:9010"


def test_the_server_takes_its_settings_as_they_are(objects, tmp_path):
    [workload] = filter(is_server, workloads(objects))
    values = environment(workload, objects)
    settings = load_settings(None, values, {})
    assert (unread_variables(values), settings.ignored_keys) == ("", ())
    assert words(workload, objects) == ["pinlater-server"]
    local = {"PINLATER_BACKEND": "sqlite", "PINLATER_BACKEND_CONFIG": "", "PINLATER_DATA_DIR": str(tmp_path)}
    checked = CliRunner().invoke(server, ["--check"], env=values | local)
    assert checked.exit_code == 0, checked.output


def test_the_servers_of_a_fleet_read_their_shards():
    objects = rendered("fleet")
    [workload] = filter(is_server, workloads(objects))
    settings = load_settings(None, environment(workload, objects), {})
    [mount] = [one for one in container(workload)["volumeMounts"] if one["name"] == "shards"]
    [volume] = [one for one in template(workload)["spec"]["volumes"] if one["name"] == "shards"]
    [secret] = of_kind(objects, "Secret")
    assert volume["secret"]["secretName"] == secret["metadata"]["name"]
    assert settings.backend == "redis"
    assert str(settings.shards_file) == f"{mount['mountPath']}/{next(iter(secret['data']))}"
    content = (KUBERNETES / "fleet" / "shards.json").read_bytes()
    assert read_shards(content, Path("shards.json"))
    assert json.loads(content)


def test_each_queue_of_the_examples_has_workers_of_its_own(objects):
    served = {}
    for workload in workloads(objects):
        if not is_server(workload):
            options = options_of(words(workload, objects))
            assert options["modules"] == ("jobs_example",)
            [queue] = options["queues"]
            assert template(workload)["metadata"]["labels"]["pinlater-queue"] == queue
            served[queue] = workload["metadata"]["name"]
    assert served == {queue: f"worker-{queue.replace('_', '-')}" for queue in KINDS}


def test_there_is_time_for_a_drain(objects):
    for workload in workloads(objects):
        grace = template(workload)["spec"]["terminationGracePeriodSeconds"]
        if is_server(workload):
            command, pause = container(workload)["lifecycle"]["preStop"]["exec"]["command"]
            assert command == "sleep"
            settings = load_settings(None, environment(workload, objects), {})
            assert grace >= float(pause) + settings.drain_seconds + _STOP_GRACE_SECONDS + 5
        else:
            assert grace >= options_of(words(workload, objects))["drain_seconds"] + EXIT_SECONDS + 5


def selected(objects, selector):
    labels = selector["matchLabels"].items() if "matchLabels" in selector else selector.items()
    return [one for one in workloads(objects) if labels <= template(one)["metadata"]["labels"].items()]


def test_services_budgets_and_policies_select_what_they_are_for(objects):
    [the_server] = filter(is_server, workloads(objects))
    for service in of_kind(objects, "Service"):
        assert selected(objects, service["spec"]["selector"]) == [the_server]
        names = {port["name"] for port in container(the_server)["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= names
    budgets = of_kind(objects, "PodDisruptionBudget")
    assert [selected(objects, one["spec"]["selector"]) for one in budgets] == [
        [one] for name in (budget["metadata"]["name"] for budget in budgets) for one in named(objects, name)
    ]
    assert len(budgets) == len(workloads(objects))
    assert [one["spec"]["serviceName"] for one in of_kind(objects, "StatefulSet")] in ([], ["pinlater-metrics"])


def named(objects, name):
    return [one for one in workloads(objects) if one["metadata"]["name"] == name]


def test_only_clients_and_servers_reach_servers_and_only_the_monitoring_the_metrics(objects):
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(objects, "NetworkPolicy")}
    assert [is_server(one) for one in selected(objects, policies["pinlater-server"]["podSelector"])] == [True]
    assert len(selected(objects, policies["pinlater-worker"]["podSelector"])) == len(KINDS)
    reached = {}
    for name, policy in policies.items():
        assert policy["policyTypes"] == ["Ingress"]
        for rule in policy["ingress"]:
            [port], [source] = rule["ports"], rule["from"]
            reached[name, port.get("port") or port["protocol"]] = source
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    clients = reached.pop(("pinlater-server", "thrift"))["podSelector"]
    others = reached.pop(("pinlater-server", "UDP"))["podSelector"]
    assert selected(objects, others) == selected(objects, policies["pinlater-server"]["podSelector"])
    assert reached == dict.fromkeys([("pinlater-server", "metrics"), ("pinlater-worker", "metrics")], monitoring)
    assert all(is_server(one) is False for one in selected(objects, clients))
    assert len(selected(objects, clients)) == len(KINDS)


# Scaling and monitoring


@pytest.fixture(scope="module")
def scaled():
    return rendered("keda")


def test_what_is_scaled_has_a_target_and_as_many_slots_as_the_threshold_says(scaled):
    objects = rendered("sqlite")
    for one in scaled:
        spec = one["spec"]
        [workload] = named(objects, spec["scaleTargetRef"]["name"])
        assert "replicas" not in workload["spec"]
        options = options_of(words(workload, objects))
        [queue] = options["queues"]
        assert KINDS[queue].job_options.latency_target
        needed, age = (trigger["metadata"] for trigger in spec["triggers"])
        assert int(needed["threshold"]) == options["processes"] * (options["threads"] or 1)
        for trigger in (needed, age):
            assert set(re.findall(r'queue="(\w+)"', trigger["query"])) == {queue}
            assert all(isinstance(value, str) for value in trigger.values())


def test_the_queries_name_metrics_that_there_are(scaled, tmp_path):
    queries = [trigger["metadata"]["query"] for one in scaled for trigger in one["spec"]["triggers"]]
    known = {family.info.name for family in Metrics()._families}
    assert metrics_in("\n".join(queries)) == {
        "pinlater_queue_workers_needed",
        "pinlater_queue_oldest_due_age_seconds",
        "pinlater_queue_paused",
    }
    assert metrics_in("\n".join(queries)) <= known
    rules = [{"record": "x:y", "expr": query} for query in queries]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "keda", "rules": rules}]}))
    done = subprocess.run(
        [program("promtool"), "check", "rules", "--lint=none", str(tmp_path / "rules.yml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_monitors_find_the_ports():
    objects = rendered("fleet")
    service_monitor, pod_monitor = sorted(rendered("monitoring"), key=lambda one: one["kind"], reverse=True)
    wanted = service_monitor["spec"]["selector"]["matchLabels"].items()
    found = [one for one in of_kind(objects, "Service") if wanted <= one["metadata"].get("labels", {}).items()]
    [endpoint] = service_monitor["spec"]["endpoints"]
    assert [one["spec"]["ports"][0]["name"] for one in found] == [endpoint["port"]]
    [endpoint] = pod_monitor["spec"]["podMetricsEndpoints"]
    for workload in selected(objects, pod_monitor["spec"]["selector"]):
        assert endpoint["port"] in {port["name"] for port in container(workload)["ports"]}
        assert endpoint["path"] in WORKER_PAGES


# Compose


def test_the_services_of_compose_take_their_options(tmp_path):
    services = compose()["services"]
    values = services["server"]["environment"] | {"PINLATER_DATA_DIR": str(tmp_path)}
    settings = load_settings(None, values, {})
    name, *arguments = services["server"]["command"]
    checked = CliRunner().invoke(server, [*arguments, "--check"], env=values)
    assert (name, unread_variables(values), checked.exit_code) == ("pinlater-server", "", 0), checked.output
    options = options_of(services["worker"]["command"])
    assert options["modules"] == ("jobs_example",)
    host, _, port = services["worker"]["environment"]["PINLATER_SERVERS"].partition(":")
    assert host in services
    assert int(port) == settings.thrift_port
    assert seconds(services["server"]["stop_grace_period"]) >= settings.drain_seconds + _STOP_GRACE_SECONDS + 5
    assert seconds(services["worker"]["stop_grace_period"]) >= options["drain_seconds"] + EXIT_SECONDS + 5


def test_the_services_of_compose_are_hardened_and_built_of_stages_that_there_are():
    for service in compose()["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["tmpfs"] == ["/tmp"]
        build = service["build"]
        assert (DEPLOY / build["context"]).resolve() == ROOT
        assert (ROOT / build["dockerfile"]).is_file()
        assert build["target"] in stages()
        assert service["healthcheck"]["test"][-1] in dict(
            pair[::-1] for step, rest in stages()["pinlater"] if step == "COPY" for pair in [rest.split()[-2:]]
        )


# The images


def test_the_last_stages_are_small_and_run_as_nobody_in_particular():
    built = stages()
    assert built["pinlater"][0][1].endswith("-slim")
    assert built["jobs"][0][1] == "pinlater"
    for name in ("pinlater", "jobs"):
        assert not [rest for step, rest in built[name] if step == "RUN" and re.search(r"\b(pip|apt-get|gcc)\b", rest)]
    steps = dict(built["pinlater"])
    assert steps["USER"] == "10001:10001"
    assert steps["STOPSIGNAL"] == "SIGTERM"
    for name in ("pinlater", "jobs"):
        assert json.loads(dict(built[name])["CMD"])[0] in {"pinlater-server", "pinlater-worker"}
    assert options_of(json.loads(dict(built["jobs"])["CMD"]))["modules"] == ("jobs_example",)


def test_the_standard_library_is_compiled_while_it_can_be():
    instructions = [step if "compileall" not in rest else "compile" for step, rest in stages()["pinlater"]]
    assert instructions.index("compile") < instructions.index("USER")


def test_what_is_copied_is_there_and_reaches_the_builder():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    admitted = [line[1:] for line in ignored if line.startswith("!")]
    for steps in stages().values():
        for step, rest in steps:
            if step == "COPY" and not rest.startswith("--from"):
                for source in shlex.split(rest)[:-1]:
                    assert (ROOT / source).exists(), source
                    assert any(one == source or one.startswith(f"{source}/") for one in admitted), source
    assert all((ROOT / one).exists() for one in admitted)


@pytest.mark.parametrize(
    ("variables", "page"),
    [
        ({}, "http://127.0.0.1:9999/readyz"),
        ({"PINLATER_OSTRICH_PORT": "1234"}, "http://127.0.0.1:1234/readyz"),
        ({"PINLATER_ADMIN_TLS_CERT": "/run/tls.crt"}, "https://127.0.0.1:9999/readyz"),
        ({"PINLATER_WORKER_HEALTH": "0.0.0.0:9998"}, "http://127.0.0.1:9998/livez"),
        ({"PINLATER_WORKER_HEALTH": "9997"}, "http://127.0.0.1:9997/livez"),
    ],
)
def test_the_health_check_asks_the_program_of_its_container(variables, page):
    code = f"import runpy, sys; print(runpy.run_path({str(DEPLOY / 'healthcheck.py')!r})['url']({variables!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == page


def test_every_file_is_explained():
    text = (DEPLOY / "README.md").read_text()
    for path in DEPLOY.rglob("*"):
        name = path.relative_to(DEPLOY)
        if path.is_file() and name.name != "README.md" and "__pycache__" not in name.parts:
            assert f"`{name}`" in text or f"`{name.parent}/`" in text or f"`{name.parent.parent}/`" in text, name
    assert set(INSTALLATIONS) | set(EXTRAS) <= {path.name for path in KUBERNETES.iterdir()}
