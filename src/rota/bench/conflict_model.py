"""A model of several schedulers on one cluster: how often they conflict, and what that does to placement. Pure.

Time goes in rounds. In a round each scheduler places some pods on the nodes that its copy of the cluster shows as least
allocated, and sends its placements; they are checked one after the other against the true state. The copy is brought up
to date between rounds by one of three modes:

- full: every scheduler learns the whole cluster after each round;
- round-robin: in each round every scheduler learns another one of N partitions (ParSync);
- freshest: the same, and nodes of the partition that was learned last are preferred.

A placement conflicts by the fine criterion if it does not fit, by the coarse one if another scheduler has placed
something on the node since this one learned it (Omega's sequence numbers). The loser learns that one node and tries its
next best. The model has neither latencies nor processor time: those are measured, see `rota.bench.schedulers`.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

Criterion = Literal["fine", "coarse"]
Synchronisation = Literal["full", "round-robin", "freshest"]
#: How many nodes a pod is tried on before it counts as rejected for this round.
_TRIES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One run of the model."""

    schedulers: int
    #: The share of the cluster that is taken at the end.
    fill: float
    criterion: Criterion = "fine"
    synchronisation: Synchronisation = "full"
    nodes: int = 200
    #: Pods of equal size that fit on a node.
    slots: int = 20
    #: Placements of one scheduler in a round.
    batch: int = 10
    #: Whether schedulers begin at different parts of the cluster among equally good nodes.
    spread_starts: bool = True
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run."""

    placed: int
    conflicts: int
    attempts: int
    #: Pods that a scheduler gave up in some round although the cluster had room.
    rejections: int
    #: Standard deviation of the pods on a node, in pods.
    unevenness: float
    #: The largest number of pods on a node: never above the slots.
    fullest: int

    @property
    def conflict_fraction(self) -> float:
        """Conflicts per attempt to place a pod."""
        return self.conflicts / self.attempts if self.attempts else 0.0


def run(setup: Setup) -> Outcome:
    """Fill a cluster."""
    rng = np.random.default_rng(setup.seed)
    true = np.zeros(setup.nodes, dtype=np.int64)
    #: The number of placements on each node by each scheduler: a copy is stale if others' have changed.
    writes = np.zeros((setup.schedulers, setup.nodes), dtype=np.int64)
    copies = np.zeros((setup.schedulers, setup.nodes), dtype=np.int64)
    learned = np.zeros((setup.schedulers, setup.schedulers, setup.nodes), dtype=np.int64)
    partition = np.arange(setup.nodes) * setup.schedulers // setup.nodes
    wanted, placed, conflicts, attempts, rejections, rounds = int(setup.fill * setup.nodes * setup.slots), 0, 0, 0, 0, 0
    starts = [
        (setup.nodes * number // setup.schedulers) if setup.spread_starts else 0 for number in range(setup.schedulers)
    ]
    while placed < wanted:
        before = placed
        left = wanted - placed
        turns = np.repeat(np.arange(setup.schedulers), setup.batch)
        rng.shuffle(turns)
        # All schedulers decide on what they knew when the round began, plus their own placements.
        for scheduler in turns[:left]:
            copy = copies[scheduler]
            fresh = partition == (rounds + scheduler) % setup.schedulers
            refused = np.zeros(setup.nodes, dtype=bool)
            for _ in range(_TRIES):
                node = _choose(copy, setup, starts[scheduler], refused, fresh)
                if node < 0:
                    rejections += 1
                    break
                attempts += 1
                others = writes[:, node].sum() - writes[scheduler, node]
                seen = learned[scheduler, :, node].sum() - learned[scheduler, scheduler, node]
                if true[node] >= setup.slots or (setup.criterion == "coarse" and others != seen):
                    conflicts += 1
                    _learn(copies, learned, writes, true, scheduler, np.array([node]))
                    refused[node] = True
                    continue
                true[node] += 1
                copy[node] += 1
                writes[scheduler, node] += 1
                placed += 1
                break
            else:
                rejections += 1
        rounds += 1
        for scheduler in range(setup.schedulers):
            if setup.synchronisation == "full":
                nodes = np.arange(setup.nodes)
            else:
                nodes = np.flatnonzero(partition == (rounds + scheduler) % setup.schedulers)
            _learn(copies, learned, writes, true, scheduler, nodes)
        if placed == before and rounds > setup.schedulers * _TRIES and setup.synchronisation == "full":
            break
    return Outcome(placed, conflicts, attempts, rejections, float(true.std()), int(true.max()))


def _choose(copy: np.ndarray, setup: Setup, start: int, refused: np.ndarray, fresh: np.ndarray) -> int:
    """The least allocated node that has room by the copy, the first of equals from `start` on; -1 if there is none."""
    possible = (copy < setup.slots) & ~refused
    if setup.synchronisation == "freshest" and (possible & fresh).any():
        possible &= fresh
    if not possible.any():
        return -1
    shown = np.where(possible, copy, setup.slots + 1)
    best = np.flatnonzero(shown == shown.min())
    after = best[best >= start]
    return int(after[0] if len(after) else best[0])


def _learn(
    copies: np.ndarray, learned: np.ndarray, writes: np.ndarray, true: np.ndarray, scheduler: int, nodes: np.ndarray
) -> None:
    copies[scheduler, nodes] = true[nodes]
    learned[scheduler][:, nodes] = writes[:, nodes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTimes:
    """Processor time that one pod costs, in seconds."""

    #: In the API server that serves the pod's requests, and in the store.
    serving: float
    #: In the scheduler that decides the pod: deciding, binding, events.
    deciding: float
    #: In every scheduler: following the pod's changes.
    following: float
    #: In every API server: following the pod's changes.
    mirroring: float = 0.0


def predicted_rate(times: ServiceTimes, schedulers: int, *, servers: int = 1, conflicts: float = 0.0) -> float:
    """Pods per second with a core for each process: the slowest stage limits.

    A pod passes one API server and one scheduler, and every one of them follows all pods; a conflict repeats the
    decision and its binding.
    """
    again = 1.0 / max(1.0 - conflicts, 1e-9)
    serving = times.serving * again / servers + times.mirroring
    scheduling = times.deciding * again / schedulers + times.following
    return 1.0 / max(serving, scheduling)
