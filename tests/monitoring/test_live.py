"""A real Prometheus and a real Alertmanager watch a real cluster while faults are injected.

Each alert that can be fired within seconds is fired by its fault, and no other one is delivered. The others are fired
with the series of their faults in `test_rules`. Expressions are those of operators; only the time that they must hold
is shorter. Alerts that measure the speed of the machine are left out of "no other one", because other work on the
machine fires them.
"""

import asyncio
import contextlib
import functools
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.api import errors, times
from rota.client import client_factory
from rota.client.pods import PODS
from rota.client.verbs import Client
from rota.kit import system
from rota.monitoring import expressions, rule_files, scraping
from rota.monitoring.alerts import ALERTS, Component
from rota.monitoring.dashboards import DASHBOARDS
from rota.testing.process_cluster import ProcessCluster
from rota.testing.servers.etcd import EtcdServer
from rota.testing.servers.prometheus import AlertmanagerServer, PrometheusServer

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.timeout(1800)]

INTERVAL_S = 3
LONGEST_S = 4
PATIENCE_S = 180.0
LEASES = ("coordination.k8s.io", "v1", "leases")
CONTROLLERS_LEASE = "rota-controllers"
#: Other work on the machine makes a cluster slow.
OF_THE_MACHINE = frozenset({"RotaApiSlow", "RotaStoreSlow", "RotaSchedulingSlow"})
#: A read of metrics that took so long shows a machine that is too busy to tell what follows from a fault.
TOO_SLOW_S = 1.0


class Watched:
    """A cluster of one master and two workers on etcd, with Prometheus and Alertmanager."""

    def __init__(self, cluster: ProcessCluster, store: EtcdServer, folder: Path) -> None:
        self.cluster = cluster
        self.store = store
        self.master = cluster.master("m1")
        self.workers = [
            cluster.worker(name, "--lease", "3", "--resources", "cpu=8,memory=8Gi") for name in ("w1", "w2")
        ]
        self.folder = folder
        self.alertmanager = AlertmanagerServer(rule_files.inhibitions())
        self.prometheus = PrometheusServer(folder)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        with self.alertmanager:
            self._configure()
            with self.prometheus:
                yield

    def _configure(self) -> None:
        self.cluster.rota(
            *("monitoring", "setup", str(self.folder), "--discovery", "file", "--interval", str(INTERVAL_S), "--json"),
            *("--alertmanager", self.alertmanager.address),
        )
        rules = rule_files.rules(longest_s=LONGEST_S)
        (self.folder / "rules.yaml").write_text(yaml.safe_dump(rules))

    def call(self, work: Callable[[Client], Awaitable[Any]]) -> Any:
        async def connected() -> Any:
            clock, rng = system.SystemClock(), system.rng()
            async with client_factory.to_server(self.cluster.endpoint(), clock=clock, rng=rng) as client:
                return await work(client)

        return asyncio.run(connected())

    def run(self, name: str, *command: str, node: str = "", restart: str = "Never", cpu: str = "10m") -> None:
        container = {"name": "c", "image": "i", "command": list(command), "resources": {"requests": {"cpu": cpu}}}
        spec: dict[str, Any] = {"restartPolicy": restart, "containers": [container]}
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        self.call(lambda client: client.create(PODS, pod))

    def delete(self, name: str) -> None:
        self.call(lambda client: client.delete(PODS, name, namespace="default", grace_period_s=0))

    def phase(self, name: str) -> str:
        pod = self.call(lambda client: client.get(PODS, name, namespace="default"))
        return str((pod.get("status") or {}).get("phase"))

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            firing = sorted(self.alertmanager.alerts())
            assert time.monotonic() < deadline, f"{what} did not happen; alerts: {firing}"
            time.sleep(0.3)

    @contextlib.contextmanager
    def fires(self, *expected: str) -> Iterator[None]:
        """In the block a fault is injected: these alerts are delivered because of it, and no others."""
        before = self.alertmanager.alerts()
        assert not before & set(expected)
        yield
        self.until(lambda: self.alertmanager.alerts() >= set(expected), f"the delivery of {expected}")
        # One more evaluation, for alerts that follow.
        self.evaluated(1)
        others = self.alertmanager.alerts() - before - set(expected) - OF_THE_MACHINE
        assert not others or self.is_slow(), f"{sorted(others)} fired for the fault of {expected}"

    def resolved(self, *names: str) -> None:
        """Wait until Prometheus no longer sees the faults of these alerts."""
        listed = "|".join(names)
        self.until(lambda: not self.prometheus.query(f'ALERTS{{alertname=~"{listed}"}}'), f"the end of {names}")

    def evaluated(self, times_: int) -> None:
        """Wait until every group of rules was evaluated so often."""
        for _ in range(times_):
            self._evaluated_again(self._last_evaluations())

    def _evaluated_again(self, before: frozenset[tuple[str, str]]) -> None:
        self.until(lambda: not self._last_evaluations() & before, "an evaluation")

    def _last_evaluations(self) -> frozenset[tuple[str, str]]:
        groups = self.prometheus.read("/api/v1/rules")["data"]["groups"]
        return frozenset((one["name"], one["lastEvaluation"]) for one in groups)

    def is_slow(self) -> bool:
        return bool(self.prometheus.query(f"max_over_time(scrape_duration_seconds[30s]) > {TOO_SLOW_S}"))


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    with EtcdServer() as store, ProcessCluster(folder / "cluster", store_url=store.url) as cluster:
        made = Watched(cluster, store, folder / "prometheus")
        with made.watching():
            yield made


def test_dashboards_have_data_and_each_alert_fires_for_its_fault_and_for_no_other(watched: Watched) -> None:
    """One test, because the faults follow each other in one cluster."""
    quiet(watched)
    every_metric_exists(watched)
    every_expression_of_a_dashboard_returns_data(watched)
    pods_that_fit_nowhere(watched)
    containers_that_crash(watched)
    controllers_without_a_leader(watched)
    scheduler_that_hangs(watched)
    node_that_dies_and_errors_of_the_api(watched)
    store_that_is_down(watched)
    master_that_dies(watched)


def quiet(watched: Watched) -> None:
    watched.until(
        lambda: (
            sorted(one["labels"]["job"] for one in watched.prometheus.targets() if one["health"] == "up")
            == ["rota-masters", "rota-workers", "rota-workers"]
        ),
        "the reading of all targets",
    )
    for number in range(3):
        watched.run(f"short-{number}", "true")
    watched.until(
        lambda: all(watched.phase(f"short-{number}") == "Succeeded" for number in range(3)), "the end of pods"
    )
    watched.until(lambda: "RotaWatchdog" in watched.alertmanager.alerts(), "the delivery of the watchdog")
    watched.evaluated(2)
    others = watched.alertmanager.alerts() - {"RotaWatchdog"} - OF_THE_MACHINE
    assert not others or watched.is_slow(), others


def every_metric_exists(watched: Watched) -> None:
    """A renamed metric would leave an alert that never fires."""
    # No spot nodes and no backup process here: `test_rules` checks the names of their metrics.
    exprs = [one.expr for one in ALERTS if one.component not in {Component.SPOT, Component.BACKUP}]
    named = {name for expr in exprs for name in expressions.metrics(expr)}
    # Audit events are counted by masters with an audit log, refused requests from the first one on.
    named -= {"rota_apiserver_audit_events_dropped_total", "rota_apiserver_requests_refused_total"}
    watched.until(lambda: not _missing(watched, named), f"metrics {_missing(watched, named)}")
    assert watched.prometheus.query('{__name__=~"(rota|scheduler)_.*informer_lag_seconds"}')


def _missing(watched: Watched, named: set[str]) -> set[str]:
    return named - set(watched.prometheus.read("/api/v1/label/__name__/values")["data"])


def every_expression_of_a_dashboard_returns_data(watched: Watched) -> None:
    for page in DASHBOARDS:
        if page.uid == "rota-spot":
            continue  # there are no spot nodes; `test_rules` checks the names of its metrics
        for panel in page.panels:
            for one in panel.series:
                watched.until(functools.partial(_has_data, watched, one.expr), f"data of {one.expr}")


def _has_data(watched: Watched, expr: str) -> bool:
    return bool(watched.prometheus.query(expr))


def pods_that_fit_nowhere(watched: Watched) -> None:
    with watched.fires("RotaPodsUnschedulable"):
        watched.run("large", "true", cpu="1000")
    watched.delete("large")
    watched.resolved("RotaPodsUnschedulable")


def containers_that_crash(watched: Watched) -> None:
    with watched.fires("RotaContainersCrash"):
        watched.run("crash", "false", restart="Always")
    watched.delete("crash")
    watched.resolved("RotaContainersCrash")


def controllers_without_a_leader(watched: Watched) -> None:
    with watched.fires("RotaControllersWithoutLeader"):
        watched.call(_take_lease)
    watched.call(lambda client: client.delete(LEASES, CONTROLLERS_LEASE, namespace="kube-system"))
    watched.resolved("RotaControllersWithoutLeader")


async def _take_lease(client: Client) -> None:
    """As a process that holds the Lease for an hour and does nothing."""
    while True:
        lease = await client.get(LEASES, CONTROLLERS_LEASE, namespace="kube-system")
        now = times.format_micro_time(system.SystemClock().now())
        lease["spec"] |= {
            "holderIdentity": "nobody",
            "leaseDurationSeconds": 3600,
            "renewTime": now,
            "acquireTime": now,
        }
        with contextlib.suppress(errors.Conflict):
            await client.update(LEASES, lease)
            return


def scheduler_that_hangs(watched: Watched) -> None:
    [pid] = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and _is_scheduler_of(entry, watched.master.pid)
    ]
    with watched.fires("RotaSchedulerAbsent"):
        os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGCONT)
    watched.resolved("RotaSchedulerAbsent")


def _is_scheduler_of(entry: Path, master: int) -> bool:
    with contextlib.suppress(OSError):
        parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        return parent == master and b"rota.scheduler_process" in (entry / "cmdline").read_bytes()
    return False


def node_that_dies_and_errors_of_the_api(watched: Watched) -> None:
    watched.run("there", "sleep", "1000", node="w2")
    watched.until(lambda: watched.phase("there") == "Running", "the start of the pod")
    with watched.fires("RotaNodesNotReady"):
        watched.workers[1].kill()
    with watched.fires("RotaApiErrors"):
        # Nothing listens where the dead worker did. Prometheus sees no increase in the first sample of a series.
        watched.call(functools.partial(_read_logs, 1))
        errors_seen = 'rota_apiserver_requests_total{resource="pods/log", code="500"}'
        watched.until(lambda: _has_data(watched, errors_seen), "the first error")
        watched.call(functools.partial(_read_logs, 30))
    watched.workers[1].start()
    watched.call(lambda client: client.delete(PODS, "there", namespace="default", grace_period_s=0))
    nodes = watched.call(lambda client: client.list(("", "v1", "nodes")))
    (watched.folder / "workers.json").write_text(json.dumps(scraping.targets(nodes.items)))
    watched.resolved("RotaNodesNotReady")


async def _read_logs(rounds: int, client: Client) -> None:
    once = client.with_settings(retry=False)

    async def read() -> None:
        with contextlib.suppress(errors.ApiError):
            await once.request("GET", "/api/v1/namespaces/default/pods/there/log")

    for _ in range(rounds):
        await asyncio.gather(*(read() for _ in range(20)))


def store_that_is_down(watched: Watched) -> None:
    with watched.fires("RotaStoreUnavailable"):
        watched.store.kill()
    watched.store.start()
    watched.resolved("RotaStoreUnavailable")


def master_that_dies(watched: Watched) -> None:
    with watched.fires("RotaMasterDown"):
        watched.master.kill()
