"""One plugin file and one configuration in three places: a simulation, `rota up`, and beside the stock API server.

Scores of the plugin are unique, so no tie decides, and pods arrive one after the other.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.stock.clusters import PODS, cluster

from rota.simulator import policies, traces
from rota.simulator.engine import Engine, Options
from rota.simulator.ties import TieRule
from rota.testing import manifests
from rota.testing.servers.kubernetes import StockApiServer

pytestmark = [pytest.mark.slow, pytest.mark.stock]

ROTA = str(Path(sys.executable).with_name("rota"))
PLUGIN = """
import msgspec

from rota.scheduler.framework.status import SUCCESS, Code, Status


class TeamsTogether:
    name = "TeamsTogether"
    Args = msgspec.defstruct("Args", [("label", str, "price")], frozen=True)

    def __init__(self, args, handle):
        self.label = args.label

    def filter(self, state, pod, node):
        owner = node.labels.get("reserved-for", "")
        if owner in ("", pod.labels["team"]):
            return SUCCESS
        return Status(Code.UNSCHEDULABLE, ("node(s) are reserved for another team",))

    def score(self, state, pod, node):
        mates = sum(other.labels.get("team") == pod.labels["team"] for other in node.pods.values())
        return 1000 * mates - int(node.labels[self.label])

    def normalize_scores(self, state, pod, scores):
        ranks = sorted(scores, key=scores.__getitem__)
        return {name: 10 * ranks.index(name) for name in scores}
"""
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: TeamsTogether}]}
    preScore: {disabled: [{name: "*"}]}
    score: {disabled: [{name: "*"}], enabled: [{name: TeamsTogether, weight: 1}]}
  pluginConfig: [{name: TeamsTogether, args: {label: cost}}]
"""
NODES = [
    manifests.node("n1", cost="30"),
    manifests.node("n2", cost="10"),
    manifests.node("n3", cost="20"),
    manifests.node("n4", cost="1", **{"reserved-for": "red"}),
]
#: Team and cores of each pod.
ARRIVALS = [
    *(("red", "1"), ("blue", "1500m"), ("blue", "1"), ("green", "500m"), ("red", "2"), ("blue", "2")),
    *(("green", "3"), ("red", "1500m"), ("blue", "500m"), ("green", "250m"), ("red", "500m"), ("blue", "1")),
]
#: A pod that only the plugin keeps from a node.
STRANDED = "stranded"


class Files(NamedTuple):
    plugin: Path
    configuration: Path

    @property
    def options(self) -> list[str]:
        return ["--plugin", str(self.plugin), "--scheduler-config", str(self.configuration)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("policy")
    found = Files(folder / "teams_together.py", folder / "policy.yaml")
    found.plugin.write_text(PLUGIN)
    found.configuration.write_text(CONFIGURATION)
    return found


def pods() -> list[manifests.Document]:
    made = []
    for number, (team, cpu) in enumerate(ARRIVALS):
        pod = manifests.pod(f"p{number}", labels={"team": team})
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        made.append(pod)
    return [*made, manifests.pod(STRANDED, labels={"team": "blue"}, nodeSelector={"reserved-for": "red"})]


@contextlib.contextmanager
def running(log: Path, ready: str, *arguments: str) -> Iterator[None]:
    """A `rota` process until the end of the block, from when its log has some words."""
    with log.open("wb") as out:
        process = subprocess.Popen([ROTA, *arguments], stdout=out, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + 60
        while ready not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(30)


async def placements(kubeconfig: Path) -> dict[str, str]:
    """Where the running scheduler of a cluster places the pods, and why the last one waits."""
    async with cluster(kubeconfig, NODES) as it:
        for pod in pods():
            await it.create(PODS, pod)
        placed = await it.placed(*(f"p{number}" for number in range(len(ARRIVALS))))
        return {**placed, STRANDED: (await it.unschedulable(STRANDED)).partition(" preemption:")[0]}


def simulated(files: Files) -> dict[str, str]:
    """The same in a simulation."""
    found = [(str(number), each) for number, each in enumerate([*NODES, *pods()])]
    refusals: dict[str, str] = {}
    policy = policies.named(str(files.configuration), [files.plugin])
    engine = Engine(traces.from_objects(found, "made"), policy.load({}), seed=1, options=Options(ties=TieRule.RANDOM))
    engine.observe(
        lambda attempt: refusals.update({attempt.pod.name: attempt.refusal.message} if attempt.refusal else {})
    )
    engine.run()
    placed = {pod.name: pod.node_name for pod in engine.placed()}
    return {**placed, **{name: why.partition(" preemption:")[0] for name, why in refusals.items()}}


def test_the_simulated_policy_uses_all_nodes_and_keeps_teams_together(files: Files) -> None:
    placed = simulated(files)
    assert set(placed) == {pod["metadata"]["name"] for pod in pods()}
    assert {placed[f"p{number}"] for number in range(len(ARRIVALS))} == {"n1", "n2", "n3", "n4"}
    assert placed["p0"] == placed["p4"] == "n4"
    assert "1 node(s) are reserved for another team" in placed[STRANDED]


async def test_rota_up_places_pods_as_the_simulation_does(files: Files, tmp_path: Path) -> None:
    data = tmp_path / "data"
    arguments = ("up", "--workers", "0", "--data", str(data), "--port", "0", *files.options)
    with running(tmp_path / "up.log", "Rota is up", *arguments):
        assert await placements(data / "kubeconfig") == simulated(files)


async def test_our_scheduler_beside_the_stock_api_server_places_pods_as_the_simulation_does(
    files: Files, tmp_path: Path
) -> None:
    # What these two do takes controllers, which do not run here.
    with StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as stock:
        rights = str(stock.kubeconfig("system:kube-scheduler"))
        with running(tmp_path / "scheduler.log", "cluster known", "scheduler", "--kubeconfig", rights, *files.options):
            assert await placements(stock.kubeconfig()) == simulated(files)
