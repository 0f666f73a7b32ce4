"""The configurations that scenarios run under, after those of Volcano's own suites."""

from typing import Final

USUAL: Final = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: nodeorder}
  - name: binpack
    arguments: {binpack.resources: scenarios.test/binpack, binpack.resources.scenarios.test/binpack: 5}
"""
#: Without `enqueue`, which keeps a group out of a full cluster and so from preempting. Gangs of low priority may be
#: broken. If `drf` voted in a tier of its own, the evicted job would take its place back.
PREEMPT: Final = """
actions: "allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: nodeorder}]
"""
#: Shares by dominant resource decide who gives way, whatever the priorities.
DRF: Final = """
actions: "allocate, preempt, backfill"
tiers:
- plugins: [{name: gang, enablePreemptable: false}, {name: conformance}, {name: drf}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
#: `capacity` votes on victims in the first tier, so that it is asked at all. `gang` does not vote: each plugin lists
#: the pods that it would give, and two lists of one job's surplus may have no pod in common. A job above its minimum
#: goes on asking until its queue has what it deserves.
CAPACITY: Final = """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, enableJobStarving: false, enableReclaimable: false}
  - {name: conformance}
  - {name: capacity, enableHierarchy: true}
- plugins: [{name: predicates}, {name: nodeorder}]
"""
#: The same, with shares by weight.
PROPORTION: Final = CAPACITY.replace("{name: capacity, enableHierarchy: true}", "{name: proportion}")
_GANGS: Final = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: capacity}]
- plugins:
  - {name: predicates}
  - {name: nodeorder}
  - {name: network-topology-aware, arguments: {hypernode.gradient.evict.max-hypernodes: 100}}
"""
GANG_PREEMPT: Final = f'actions: "allocate, gangpreempt, backfill"{_GANGS}'
GANG_RECLAIM: Final = f'actions: "allocate, gangreclaim, backfill"{_GANGS}'
#: In the order in which a cluster takes them on.
CONFS: Final = {
    "usual": USUAL,
    "preempt": PREEMPT,
    "drf": DRF,
    "capacity": CAPACITY,
    "gang-preempt": GANG_PREEMPT,
    "gang-reclaim": GANG_RECLAIM,
    "proportion": PROPORTION,
}
#: Scenarios that run one after the other: `proportion` divides the cluster among all queues that ask for anything, and
#: `gangreclaim` takes from any queue of the cluster. Of these, some run on real processes too.
IN_TURN: Final = {"gang-reclaim": ("gr-1", "gr-3"), "proportion": ("allocate-5", "fair-share", "reclaim-last")}
