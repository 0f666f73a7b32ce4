"""network-topology-aware: groups are kept within network domains, and domains are filled before others are begun.

What a domain has free is measured when the session opens; what is placed later is found out by trial.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from rota.columns.arrays import FloatArray, IndexArray
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.amounts import CPU, MEMORY, Amounts
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.hypernodes import HyperNode
from rota.scheduler.batch.jobs import Job, SubJob, Topology
from rota.scheduler.batch.plugin import BatchPlugin, Purpose
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task

MAX_SCORE: Final = 100.0
_PREFIX: Final = "hypernode.binpack.resources."


def _positive(value: Any) -> int:
    read = args.integer(value)
    if read <= 0:
        raise ValueError("expected a number above 0")
    return read


class NetworkTopologyAware(BatchPlugin):
    """Domains for groups, and ratings by domain."""

    name: ClassVar[str] = "network-topology-aware"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "weight": Argument(args.integer, 1),
        "hypernode.binpack.cpu": Argument(args.integer, 1),
        "hypernode.binpack.memory": Argument(args.integer, 1),
        "hypernode.binpack.resources": Argument(args.text, ""),
        _PREFIX: Argument(args.integer),
        "hypernode.binpack.normal-pod.enable": Argument(args.boolean, True),
        "hypernode.binpack.normal-pod.fading": Argument(args.number, 0.8),
        "hypernode.gradient.evict.max-hypernodes": Argument(_positive, 8),
    }

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._session = session
        self._tree = session.hypernodes
        self._weight: Final = _or_one(arguments["weight"])
        self._weights: Final = {
            CPU: _or_one(arguments["hypernode.binpack.cpu"]),
            MEMORY: _or_one(arguments["hypernode.binpack.memory"]),
            **{
                name: _or_one(arguments.get(_PREFIX + name, 1))
                for each in arguments["hypernode.binpack.resources"].split(",")
                if (name := each.strip())
            },
        }
        self._rates_ordinary: Final[bool] = arguments["hypernode.binpack.normal-pod.enable"]
        fading: float = arguments["hypernode.binpack.normal-pod.fading"]
        self._fading: Final = 0.8 if fading < 0 else fading
        self._most: Final[int] = arguments["hypernode.gradient.evict.max-hypernodes"]
        self._offered: dict[str, Amounts] = {}
        self._used: dict[str, Amounts] = {}
        self._idle: dict[str, Amounts] = {}
        self._future: dict[str, Amounts] = {}
        self._inside: dict[int, list[str]] = {}

    def open(self) -> None:
        """Measure all domains."""
        nodes = self._session.nodes
        future = nodes.future
        for name, hypernode in self._tree.by_name.items():
            self._offered[name] = nodes.sum_over(nodes.allocatable, hypernode.nodes)
            self._used[name] = nodes.sum_over(nodes.used, hypernode.nodes)
            self._idle[name] = nodes.sum_over(nodes.idle, hypernode.nodes)
            self._future[name] = nodes.sum_over(future, hypernode.nodes)
            for row in hypernode.nodes:
                self._inside.setdefault(row, []).append(name)

    def on_allocate(self, task: Task) -> None:
        """Count a pod in."""
        for name in self._inside.get(self._session.nodes.rows.get(task.node, -1), ()):
            self._used[name].add(task.request)

    def on_deallocate(self, task: Task) -> None:
        """Count a pod out."""
        for name in self._inside.get(self._session.nodes.rows.get(task.node, -1), ()):
            self._used[name].sub(task.request)

    # --- ratings ----------------------------------------------------------------------------------------------------

    def hypernode_order(self, subjob: SubJob, hypernodes: Sequence[str]) -> Mapping[str, float]:
        """Prefer domains that would be fuller, then those that hold more of the sub-group."""
        wanted: dict[str, float] = {}
        for task in subjob.members.values():
            for name in task.request.names():
                if name in self._weights:
                    wanted[name] = wanted.get(name, 0.0) + task.request.get(name)
        scores = {name: self._fullness(name, wanted) for name in hypernodes}
        highest = max(scores.values(), default=0.0)
        best = [name for name, score in scores.items() if score == highest]
        if len(best) > 1:
            for name in best:
                scores[name] += self._gathered(name, subjob)
        return {name: MAX_SCORE * float(self._weight) * score for name, score in scores.items()}

    def batch_node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Prefer nodes near the rest of the sub-group, or for pods without a topology nodes in fuller domains."""
        subjob = self._session.jobs[task.job].subjobs[task.subjob]
        scores = self._near(task, subjob, rows) if subjob.topology is not None else self._ordinary(task, rows)
        return MAX_SCORE * float(self._weight) * scores

    def _ordinary(self, task: Task, rows: IndexArray) -> FloatArray:
        if not self._rates_ordinary:
            return np.zeros(len(rows))
        tiers = range(self._tree.tiers[0], self._tree.tiers[-1] + 1)
        weights = {tier: self._fading ** float(tier - 1) for tier in tiers}
        whole = sum(weights.values())
        if whole <= 0:
            return np.zeros(len(rows))
        wanted = {name: task.request.get(name) for name in task.request.names() if name in self._weights}
        by_domain: dict[str, float] = {}
        scores = []
        for row in rows.tolist():
            total = 0.0
            for tier in tiers:
                domain = next((each for each in self._tree.by_tier.get(tier, ()) if each in self._inside[row]), None)
                if domain is None:
                    rating = 1.0
                else:
                    if domain not in by_domain:
                        by_domain[domain] = self._fullness(domain, wanted)
                    rating = by_domain[domain]
                total += weights[tier] * rating
            scores.append(total / whole)
        return np.asarray(scores)

    def _near(self, task: Task, subjob: SubJob, rows: IndexArray) -> FloatArray:
        home = task.topology_node
        if not home:
            return np.zeros(len(rows))
        domains = [self._tree.leaf_of(row) for row in rows.tolist()]
        scores = np.asarray([self._nearness(domain, home) for domain in domains])
        best = np.flatnonzero(scores == scores.max())
        if len(best) > 1:
            for place in best.tolist():
                scores[place] += self._gathered(domains[place], subjob)
        return scores

    def _nearness(self, domain: str, home: str) -> float:
        if not domain:
            return 0.0
        if domain == home:
            return 1.0
        common = self._tree.by_name.get(self._tree.common(domain, home))
        if common is None:
            return 0.0
        lowest, highest = self._tree.tiers[0], self._tree.tiers[-1]
        if lowest == highest:
            return 1.0
        return float(highest - common.tier) / float(highest - lowest)

    def _fullness(self, domain: str, wanted: Mapping[str, float]) -> float:
        score, weights = 0.0, 0
        for name, amount in wanted.items():
            weight = self._weights[name]
            offered, used = self._offered[domain].get(name), self._used[domain].get(name)
            if used + amount > offered:
                return 0.0
            score += float(weight) * ((used + amount) / offered)
            weights += weight
        return score / float(weights) if weights > 0 else 0.0

    def _gathered(self, domain: str, subjob: SubJob) -> float:
        if not subjob.members:
            return 0.0
        hypernode = self._tree.by_name.get(domain)
        names = {self._session.nodes.names[row] for row in hypernode.nodes} if hypernode is not None else set()
        return sum(task.node in names for task in subjob.members.values()) / len(subjob.members)

    # --- domains ----------------------------------------------------------------------------------------------------

    def job_gradients(self, job: Job, root: HyperNode, purpose: Purpose) -> list[list[HyperNode]]:
        """Give the domains that a group may use."""
        return self._gradients(job.topology, root, job.topology_node, job.minimum(), purpose)

    def subjob_gradients(self, subjob: SubJob, root: HyperNode, purpose: Purpose) -> list[list[HyperNode]]:
        """Give the domains that a sub-group may use."""
        return self._gradients(subjob.topology, root, subjob.topology_node, subjob.needs(), purpose)

    def _gradients(
        self, topology: Topology | None, root: HyperNode, home: str, wanted: Amounts, purpose: Purpose
    ) -> list[list[HyperNode]]:
        if topology is None or not topology.hard or topology.highest_tier is None:
            return [[root]]
        start = self._start(root, home, topology.highest_tier)
        if start is None:
            return []
        by_tier: dict[int, list[HyperNode]] = {}
        waiting, seen = [start], {start.name}
        while waiting:
            current = waiting.pop(0)
            if self._eligible(current, topology.highest_tier, home, wanted, purpose):
                by_tier.setdefault(current.tier, []).append(current)
            for name in current.children:
                if name not in seen:
                    seen.add(name)
                    waiting.append(self._tree[name])
        rows = [by_tier[tier] for tier in sorted(by_tier)]
        return rows if purpose is Purpose.ALLOCATE else self._widest(rows)

    def _start(self, root: HyperNode, home: str, highest: int) -> HyperNode | None:
        """Give the domain to search in: below the root, and not above what the group may be spread over."""
        if not home:
            return root
        above = ""
        for name in self._tree.ancestors(home):
            if self._tree[name].tier > highest:
                break
            above = name
        if not above:
            return None
        common = self._tree.common(root.name, above)
        if common == above:
            return root
        return self._tree[above] if common == root.name else None

    def _eligible(self, domain: HyperNode, highest: int, home: str, wanted: Amounts, purpose: Purpose) -> bool:
        if domain.tier > highest:
            return False
        if home:
            return True
        if purpose is Purpose.EVICT:
            return wanted.fits(self._offered[domain.name])
        return wanted.fits(self._idle[domain.name]) or wanted.fits(self._future[domain.name])

    def _widest(self, rows: list[list[HyperNode]]) -> list[list[HyperNode]]:
        """Put the widest domains first, and leave out what is more than may be looked at."""
        left, result = self._most, []
        for row in reversed(rows):
            if not left:
                break
            result.append(row if len(row) <= left else row[len(row) - left :])
            left -= len(result[-1])
        return result


def _or_one(weight: int) -> int:
    return 1 if weight < 0 else weight
