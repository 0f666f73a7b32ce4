"""From a configuration file to extenders: both ways to reach one, the order, and what is refused."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from tests.scheduler.extenders.conftest import Farm

from rota.columns.pod_interner import PodInterner
from rota.kit.system import SystemClock
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.extenders import factory, preemption_candidates
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.plugin_registry import builtin, third_party
from rota.testing import clusters

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
"""


def _extenders(text: str) -> str:
    return CONFIG + "\n".join(f"  {line}" for line in text.strip().splitlines())


async def test_extenders_that_may_fail_come_last_whichever_way_they_are_reached(farm: Farm) -> None:
    text = _extenders(
        """
- command: [/opt/gpu, --rack, "7"]
  filterVerb: filter
  ignorable: true
- urlPrefix: http://127.0.0.1:9/scheduler/
  prioritizeVerb: rate
  weight: 3
  httpTimeout: 250ms
"""
    )
    configuration = third_party.load(text, builtin.registry()).configuration
    extender_chain = factory.extender_chain(
        configuration.extenders, cluster_reader=farm, clock=SystemClock(), rng=random.Random(1)
    )
    assert [each.name for each in extender_chain.extenders] == ["http://127.0.0.1:9/scheduler/", "/opt/gpu --rack 7"]
    http, child = extender_chain.extenders
    assert (http.is_prioritizer, http.weight, http.is_filter, http.ignorable) == (True, 3, False, False)
    assert (child.is_filter, child.is_prioritizer, child.is_binder, child.ignorable) == (True, False, False, True)
    await extender_chain.close()


@pytest.mark.parametrize(
    ("extender", "faults"),
    [
        ("- filterVerb: filter", ["extenders[0].urlPrefix: is required"]),
        (
            "- urlPrefix: gpu:8080",
            ['extenders[0].urlPrefix: "gpu:8080" must begin with http:// or https://'],
        ),
        (
            "- command: [/opt/gpu]\n  urlPrefix: http://gpu\n  enableHTTPS: true\n  tlsConfig: {insecure: true}",
            [
                f"extenders[0].{name}: has no meaning beside command; leave one of them out"
                for name in ("urlPrefix", "enableHTTPS", "tlsConfig")
            ],
        ),
        ("- command: ['']", ["extenders[0].command[0]: must name a program"]),
        ("- command: /opt/gpu", ["extenders[0].command: Expected array, got str"]),
    ],
)
def test_an_extender_that_cannot_be_reached_is_refused_by_path(extender: str, faults: Sequence[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        third_party.load(_extenders(extender), builtin.registry())
    assert [str(fault) for fault in caught.value.faults] == faults


def test_an_extender_that_takes_preemption_over_is_offered_all_that_may_be_evicted() -> None:
    interner = PodInterner()
    cluster = clusters.build(
        [clusters.make_node("full"), clusters.make_node("off", labels={"site": "b"}), clusters.make_node("equal")],
        [
            clusters.make_pod("low", on="full", cpu="2", priority=1, labels={"app": "db"}),
            clusters.make_pod("mid", on="full", cpu="1900m", priority=5),
            clusters.make_pod("other", on="off", cpu="4", priority=1),
            clusters.make_pod("peer", on="equal", cpu="4", priority=10),
        ],
        interner,
    )
    budget = {"selector": {"matchLabels": {"app": "db"}}}
    cluster.catalog.put(
        "PodDisruptionBudget", {"metadata": {"name": "db", "namespace": "default"}, "spec": budget, "status": {}}
    )
    framework = Framework(
        third_party.load(CONFIG.replace("extenders:", ""), builtin.registry()).configuration.first, builtin.registry()
    )
    affinity = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "site", "operator": "DoesNotExist"}]}]}
    spec: dict[str, Any] = {
        "priority": 10,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}},
    }
    decider = Decider(framework, cluster)
    offered = preemption_candidates.all_candidates(
        decider.evaluate(interner.pod(clusters.make_pod("web", cpu="3", **spec)))
    )
    assert [(each.node_name, [pod.name for pod in each.victims], each.violations) for each in offered] == [
        ("full", ["mid", "low"], 1)
    ]
    beyond = {"full": Status(Code.UNRESOLVABLE, ("wrong site",), "Extender")}
    assert (
        preemption_candidates.all_candidates(
            decider.evaluate(interner.pod(clusters.make_pod("web", cpu="3", **spec))), beyond
        )
        == []
    )
    never = interner.pod(clusters.make_pod("web", cpu="3", preemptionPolicy="Never", **spec))
    assert preemption_candidates.all_candidates(decider.evaluate(never)) == []
