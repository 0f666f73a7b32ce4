"""Nodes that come and go by the models of a run: failures, interruptions of spot nodes, pools that grow and shrink.

A pool adds as many nodes as the requests of waiting pods need, counted resource by resource, less those that are
starting or empty. It knows nothing of constraints, so a pod that waits for another reason makes it add nodes in vain,
at most three times.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from rota.columns.pods import PodInfo
from rota.simulator.meters import Meters
from rota.simulator.models import Distribution, Models, NodePool
from rota.simulator.traces import Document

#: How often pools look at the queue, and how often they add nodes for the same pod.
_CHECK_S: Final = 10.0
_MOST_TRIES: Final = 3
_TAINT: Final = {"key": "rota.dev/interruption", "effect": "NoSchedule"}


class Run(Protocol):
    """What this module needs of an engine."""

    now: float

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers."""

    @property
    def node_documents(self) -> dict[str, Document]:
        """The nodes by name."""

    @property
    def meters(self) -> Meters:
        """What is measured."""

    def plan(self, delay_s: float, act: Callable[..., None], *arguments: Any, background: bool = False) -> None:
        """Have something done later; a run does not wait for what is in the background."""

    def set_node(self, document: Document) -> None:
        """Add or change a node."""

    def remove_node(self, name: str) -> None:
        """Remove a node with its pods."""

    def lose(self, uid: str, *, at_once: bool = False) -> None:
        """Evict a pod."""

    def pods_on(self, name: str) -> Sequence[PodInfo]:
        """The pods of a node."""

    def waiting(self) -> Iterable[PodInfo]:
        """Pods without a node."""


class Disturbances:
    """Failures and interruptions, node by node."""

    def __init__(self, run: Run, models: Models) -> None:
        self._run: Final = run
        self._failures: Final = models.failures
        self._spot: Final = models.spot

    def begin(self) -> None:
        """Plan the first of every node."""
        for name, document in list(self._run.node_documents.items()):
            self._plan(name, document)

    def _plan(self, name: str, document: Document) -> None:
        if self._failures is not None:
            self._later(self._failures.between, self._fail, name, document, background=True)
        if self._spot is not None:
            labels = (document.get("metadata") or {}).get("labels") or {}
            if labels.get(self._spot.label) == self._spot.value:
                self._later(self._spot.between, self._notice, name, document, background=True)

    def _later(
        self, after: Distribution, act: Callable[..., None], name: str, document: Document, *, background: bool = False
    ) -> None:
        self._run.plan(after.draw(self._run.rng), act, name, document, background=background)

    def _fail(self, name: str, document: Document) -> None:
        assert self._failures is not None
        if name in self._run.node_documents:
            self._run.remove_node(name)
            self._later(self._failures.repair, self._return, name, document)

    def _notice(self, name: str, document: Document) -> None:
        assert self._spot is not None
        if name not in self._run.node_documents:
            return
        self._run.meters.noticed += 1
        spec = dict(document.get("spec") or {})
        spec["taints"] = [*(spec.get("taints") or ()), _TAINT]
        self._run.set_node({**document, "spec": spec})
        for pod in self._run.pods_on(name):
            self._run.lose(pod.uid)
        self._run.plan(self._spot.notice_s, self._interrupt, name, document)

    def _interrupt(self, name: str, document: Document) -> None:
        assert self._spot is not None
        self._run.remove_node(name)
        self._later(self._spot.replacement, self._return, name, document)

    def _return(self, name: str, document: Document) -> None:
        if name not in self._run.node_documents:
            self._run.set_node(document)
            self._plan(name, document)


class NodePools:
    """All pools of a run."""

    def __init__(self, run: Run, pools: Sequence[NodePool]) -> None:
        self._run: Final = run
        self._pools: Final = [_Pool(run, pool) for pool in pools]

    def begin(self) -> None:
        """Start to look."""
        if self._pools:
            self._run.plan(0.0, self._check)

    def _check(self) -> None:
        waiting = list(self._run.waiting())
        for pool in self._pools:
            pool.grow(waiting)
            pool.shrink()
        self._run.plan(_CHECK_S, self._check, background=True)


class _Pool:
    """One pool."""

    def __init__(self, run: Run, pool: NodePool) -> None:
        self._run: Final = run
        self._pool: Final = pool
        self._amounts: Final = pool.amounts()
        self._made = 0
        self._starting = 0
        #: The nodes of the pool, with the time since which they are empty.
        self._empty_since: Final[dict[str, float | None]] = {}
        self._tries: Final[dict[str, int]] = {}

    def grow(self, waiting: Sequence[PodInfo]) -> None:
        """Start as many nodes as waiting pods need."""
        served = [
            pod
            for pod in waiting
            if self._tries.get(pod.uid, 0) < _MOST_TRIES and self._amounts.keys() >= pod.shape.requests.keys()
        ]
        wanted: dict[str, int] = {"pods": len(served)}
        for pod in served:
            for resource, amount in pod.shape.requests.items():
                wanted[resource] = wanted.get(resource, 0) + amount
        sizes = ((amount, self._amounts.get(resource, 0)) for resource, amount in wanted.items())
        needed = max((math.ceil(amount / size) for amount, size in sizes if size), default=0)
        # A node that is empty may just have come: pods are tried on it first.
        coming = self._starting + sum(since is not None for since in self._empty_since.values())
        ordered = min(needed - coming, self._pool.most - len(self._empty_since) - self._starting)
        if ordered <= 0:
            return
        for pod in served:
            self._tries[pod.uid] = self._tries.get(pod.uid, 0) + 1
        for _ in range(ordered):
            self._starting += 1
            self._run.plan(self._pool.boot_s, self._ready, self._made)
            self._made += 1

    def _ready(self, number: int) -> None:
        self._starting -= 1
        document = self._pool.node(number)
        self._empty_since[document["metadata"]["name"]] = self._run.now
        self._run.meters.nodes_added += 1
        self._run.set_node(document)

    def shrink(self) -> None:
        """Remove nodes that have been empty for long."""
        for name, since in list(self._empty_since.items()):
            if name not in self._run.node_documents:
                del self._empty_since[name]
            elif self._run.pods_on(name):
                self._empty_since[name] = None
            elif since is None:
                self._empty_since[name] = self._run.now
            elif self._run.now - since >= self._pool.idle_s:
                del self._empty_since[name]
                self._run.meters.nodes_removed += 1
                self._run.remove_node(name)
