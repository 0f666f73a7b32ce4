"""Benchmark of scheduling decisions: the default profile, all nodes scored, one core, without I/O.

The reference is the same profile with plugins that evaluate one node at a time and cache nothing between pods. Rates
are per second of processor time, which depends less on other load. Decoding manifests is not measured.
"""

import gc
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from rota.bench import processor
from rota.bench.report import Result, median, rate
from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner, read_node
from rota.columns.pods import PodInfo
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.framework.plugin_interfaces import points_of
from rota.scheduler.framework.registry import Registry
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.plugin_registry import builtin

Document = dict[str, Any]
Template = Callable[[int], Document]

NODES = 5_000
MANY_NODES = 50_000
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
DISKS = ("ssd", "hdd", "nvme")
AGAINST = "one node at a time"
MEMORY_LIMIT_MIB = 1024


class Effort(Struct, frozen=True, kw_only=True):
    """How much to measure."""

    rounds: int = 3
    decisions: int = 2_000
    preemptions: int = 40
    growth_nodes: tuple[int, ...] = (500, 1_000, 2_000, 10_000, 20_000)
    growth_pods: tuple[int, ...] = (50_000, 150_000)
    memory_pods: int = 150_000


QUICK = Effort(rounds=1, decisions=500, preemptions=10, growth_nodes=(1_000,), growth_pods=(), memory_pods=30_000)


def measure(*, store_url: str = "", quick: bool = False) -> list[Result]:
    """Measure decisions; uses no store."""
    effort = QUICK if quick else Effort()
    # Memory first, while the process has no freed memory to reuse.
    return [*_memory(effort), *_workloads(effort), *_objectives(effort), *_preemptions(effort), *_growth(effort)]


def _workloads(effort: Effort) -> Iterable[Result]:
    for name, template in WORKLOADS.items():
        yield _placed(f"{name}, {NODES:,} nodes", template, NODES, effort)
    yield _placed(f"identical pods, {MANY_NODES:,} nodes", identical, MANY_NODES, effort)


def _placed(name: str, template: Template, nodes: int, effort: Effort, *, running: int = 0) -> Result:
    """Place pods one after the other; returns decisions per second and the reference's."""
    cluster, interner = _cluster(nodes), PodInterner()
    _fill(cluster, interner, running)
    numbers = itertools.count()
    rates = []
    for _ in range(effort.rounds):
        pods = [interner.pod(template(next(numbers))) for _ in range(effort.decisions + 1)]
        decider = Decider(_framework(), cluster)
        _place(decider, pods[:1])
        rates.append(effort.decisions / processor.spent_s(lambda: _place(decider, pods[1:])))  # noqa: B023 - called at once
    plain = Decider(_plain_framework(), cluster)
    reference = 1 / processor.spent_s(lambda: _place(plain, [interner.pod(template(next(numbers)))]))
    return rate(name, median(rates), reference, against=AGAINST)


def _objectives(effort: Effort) -> Iterable[Result]:
    """Five objectives combined by Chebyshev's order, beside the default profile without them in alternating rounds."""
    for name in ("identical pods", "pods that all differ"):
        template, interner, numbers = WORKLOADS[name], PodInterner(), itertools.count()
        rates: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(effort.rounds):
            for combined, found in rates.items():
                decider = Decider(_objective_framework() if combined else _framework(), _cluster(NODES))
                pods = [interner.pod(template(next(numbers))) for _ in range(effort.decisions + 1)]
                _place(decider, pods[:1])
                found.append(effort.decisions / processor.spent_s(lambda: _place(decider, pods[1:])))  # noqa: B023 - called at once
        yield rate(
            f"five objectives, {name}, {NODES:,} nodes",
            median(rates[True]),
            median(rates[False]),
            against="without objectives",
        )


def _preemptions(effort: Effort) -> Iterable[Result]:
    """Full nodes, pods of five priorities on them, and pods that are more important than all of those."""
    for name, template in (("equal pods", important), ("pods that differ", important_and_different)):
        cluster, interner = _cluster(NODES), PodInterner()
        for number in range(10 * NODES):
            pod = _pod(number, cpu="3200m", memory="12Gi", priority=number % 5)
            pod["status"] = {"startTime": f"2026-01-01T{number % 24:02}:{number % 60:02}:00Z"}
            cluster.add_pod(interner.pod(pod), f"node-{number // 10:05}")
        count = itertools.count(10 * NODES)
        decider = Decider(_framework(), cluster)
        _make_room(decider, [interner.pod(template(next(count)))])
        pods = [interner.pod(template(next(count))) for _ in range(effort.preemptions)]
        found = effort.preemptions / processor.spent_s(lambda: _make_room(decider, pods))  # noqa: B023 - called at once
        plain = Decider(_plain_framework(), cluster)
        last = [interner.pod(template(next(count)))]
        reference = 1 / processor.spent_s(lambda: _make_room(plain, last))  # noqa: B023 - called at once
        yield rate(f"preemption for {name}, {NODES:,} full nodes", found, reference, against=AGAINST)


def _growth(effort: Effort) -> Iterable[Result]:
    """Rates by number of nodes, and by number of running pods."""
    for nodes in effort.growth_nodes:
        for name in ("identical pods", "pods that all differ", "hard zone spread"):
            yield _placed(f"{name}, {nodes:,} nodes", WORKLOADS[name], nodes, effort)
    for running in effort.growth_pods:
        for name in ("identical pods", "required anti-affinity"):
            label = f"{name}, {NODES:,} nodes, {running:,} pods running"
            yield _placed(label, WORKLOADS[name], NODES, effort, running=running)


def _memory(effort: Effort) -> Iterable[Result]:
    """What a cluster of many pods takes, with its evaluations, beyond what the process took before."""
    gc.collect()
    before = processor.resident_mib()
    cluster, interner = _cluster(NODES), PodInterner()
    _fill(cluster, interner, effort.memory_pods)
    decider = Decider(_framework(), cluster)
    for template in WORKLOADS.values():
        _place(decider, [interner.pod(template(number)) for number in range(20)])
    gc.collect()
    taken = processor.resident_mib() - before
    yield Result(
        name=f"memory, {NODES:,} nodes, {effort.memory_pods:,} pods",
        value=taken,
        unit="MiB",
        against=f"{MEMORY_LIMIT_MIB} MiB",
        ratio=MEMORY_LIMIT_MIB / taken if taken else None,
    )


# --- what is placed -------------------------------------------------------------------------------------------------


def _pod(number: int, *, cpu: str = "100m", memory: str = "200Mi", **spec: Any) -> Document:
    container = {
        "name": "main",
        "image": "registry.example/web:v1",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    name = f"pod-{number}"
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def identical(number: int) -> Document:
    """All the same."""
    return _pod(number)


def different(number: int) -> Document:
    """No two alike in resources, node selectors and tolerations."""
    return _pod(
        number,
        cpu=f"{100 + number % 97}m",
        memory=f"{200 + number}Mi",
        nodeSelector={"disk": DISKS[number % 3]},
        tolerations=[{"key": f"own-{number}", "operator": "Exists"}, {"key": "dedicated", "operator": "Exists"}],
    )


def spread(number: int) -> Document:
    """Evenly over three zones, or not at all."""
    selector = {"matchLabels": {"app": "web"}}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return _pod(number, topologySpreadConstraints=[constraint])


def apart(number: int) -> Document:
    """Required anti-affinity within groups of ten."""
    group = f"g{number % 10}"
    document = _pod(number)
    document["metadata"]["labels"] = {"app": "web", "group": group}
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"group": group}}}
    document["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return document


def together(number: int) -> Document:
    """Preferred affinity."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    preferred = [{"weight": 10, "podAffinityTerm": term}]
    return _pod(number, affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})


def important(number: int) -> Document:
    """Two thirds of what a victim and a half leave behind."""
    return _pod(number, cpu="6", memory="20Gi", priority=1_000)


def important_and_different(number: int) -> Document:
    """No two alike."""
    toleration = {"key": f"own-{number}", "operator": "Exists"}
    return _pod(number, cpu=f"{5_000 + number % 900}m", memory="20Gi", priority=1_000, tolerations=[toleration])


WORKLOADS: dict[str, Template] = {
    "identical pods": identical,
    "pods that all differ": different,
    "hard zone spread": spread,
    "required anti-affinity": apart,
    "preferred affinity": together,
}


# --- how ------------------------------------------------------------------------------------------------------------


def _cluster(nodes: int) -> Cluster:
    cluster = Cluster()
    for number in range(nodes):
        name = f"node-{number:05}"
        labels = {HOSTNAME: name, ZONE: f"zone-{number % 3}", "disk": DISKS[number // 3 % 3], "rack": str(number // 40)}
        taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if number % 10 == 9 else []
        allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "500Gi"}
        cluster.set_node(
            read_node(
                {
                    "metadata": {"name": name, "labels": labels},
                    "spec": {"taints": taints},
                    "status": {"allocatable": allocatable},
                }
            )
        )
    return cluster


def _fill(cluster: Cluster, interner: PodInterner, running: int) -> None:
    """Put pods of a hundred templates on the nodes in turn."""
    nodes = [node.name for node in cluster.node_infos()]
    for number in range(running):
        document = _pod(number, cpu="50m", memory="100Mi")
        document["metadata"].update(
            name=f"running-{number}",
            uid=f"running-{number}",
            labels={"app": f"app-{number % 100}", "tier": DISKS[number % 3]},
        )
        cluster.add_pod(interner.pod(document), nodes[number % len(nodes)])


def _framework(registry: Registry | None = None) -> Framework:
    known = builtin.registry() if registry is None else registry
    return Framework(resolution.default(specs_of(known)).first, known)


def _objective_framework() -> Framework:
    """The default profile with five objectives and a combiner."""
    names = [f"{each}Objective" for each in ("Power", "Utilization", "Balance", "Fragmentation", "Price")]
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": name} for name in [*names, "ObjectiveCombiner"]]}},
                "pluginConfig": [
                    {
                        "name": "ObjectiveCombiner",
                        "args": {"method": "Chebyshev", "objectives": [{"plugin": name} for name in names]},
                    }
                ],
            }
        ],
    }
    registry = builtin.registry()
    return Framework(resolution.resolve(resolution.read(document), specs_of(registry)).first, registry)


def _plain_framework() -> Framework:
    """Give the same profile without vectorized plugins and without caches."""
    hidden = dict.fromkeys(("filter_nodes", "score_nodes", "signature", "reprieve"))
    plain = (type(each.__name__, (each,), hidden) for each in builtin.CLASSES)
    # Policies for shared GPUs have vector forms only; the profile of this benchmark has none of them.
    return _framework(Registry(each for each in plain if points_of(each)))


def _place(decider: Decider, pods: Sequence[PodInfo]) -> None:
    for pod in pods:
        name = decider.decide(pod).node_name
        if name is None:
            raise RuntimeError("a benchmark pod found no node; its cluster is too small")
        decider.cluster.add_pod(pod, name)


def _make_room(decider: Decider, pods: Sequence[PodInfo]) -> None:
    for pod in pods:
        found = decider.decide(pod).post_filter
        if found is None or not found.nominated_node:
            raise RuntimeError("a benchmark pod found no victims; its cluster is not full")
        for victim in found.victims:
            decider.cluster.remove_pod(victim.uid)
        decider.cluster.add_pod(pod, found.nominated_node)
