"""The nodes as arrays, for requests about thousands of them.

A node has a slot; slot 0 stands for every unknown node. The rules are those of single nodes (`rota.spot.scoring`,
`rota.extender.view.Distances`), and a test compares the two. A scheduler sends the same names again and again, so they
are looked up once (`Named`).
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from rota.extender.facts import NodeFacts
from rota.spot.node_readings import Capacity
from rota.spot.policies import Policy, SpotPreference
from rota.spot.risks import Risks
from rota.spot.scoring import NEUTRAL, RISKY, Weights

Floats = npt.NDArray[np.float64]
Slots = npt.NDArray[np.intp]

#: In the order of their codes.
CAPACITIES: Final = (Capacity.SPOT, Capacity.ON_DEMAND, Capacity.UNKNOWN)
_CODES: Final = {capacity: code for code, capacity in enumerate(CAPACITIES)}
_SPOT: Final = _CODES[Capacity.SPOT]
_COLUMNS: Final = ("ends", "kind", "_risky", "_price", "_load", "_pool", "_zone", "_region")
_FIRST_SIZE: Final = 64
#: Number of cached lists of names: one scheduler's, before and after other filters.
_KEPT: Final = 8
#: Longer lists are not cached.
_LARGEST: Final = 8 * 1024 * 1024
#: How long risks are cached: they change over hours.
_RISKS_S: Final = 1.0

_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Near:
    """The slots of the nodes with an owner's pods, and the distances from there."""

    nodes: Sequence[int]
    #: To the node itself, its zone, its region, and anywhere.
    distances: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Named:
    """A list of node names."""

    names: Sequence[str]
    slots: Slots
    #: The beginning of each node's entry in a HostPriorityList, as JSON.
    entries: Sequence[str]
    version: int
    #: The names that passed and the indices of the others, by the refused kinds of machines; with their version.
    verdicts: dict[tuple[bool, ...], tuple[int, Sequence[str], Sequence[int]]] = field(default_factory=dict)


class Columns:
    """The columns of all nodes."""

    def __init__(self) -> None:
        self._slots: Final[dict[str, int]] = {}
        self._free: Final[list[int]] = []
        self._numbers: Final[dict[str, dict[str, int]]] = {kind: {"": 0} for kind in ("pool", "zone", "region")}
        #: Changes whenever a name gets another slot.
        self._version = 0
        #: Changes whenever the verdict on a node may change.
        self._marks = 0
        self._named: Final[OrderedDict[bytes, Named]] = OrderedDict()
        self._risks: Floats = np.zeros(0)
        self._risks_until = -np.inf
        self._top = 1
        self.ends = np.zeros(_FIRST_SIZE, bool)
        self.kind = np.full(_FIRST_SIZE, _CODES[Capacity.UNKNOWN], np.int8)
        self._risky = np.zeros(_FIRST_SIZE, bool)
        self._price = np.full(_FIRST_SIZE, np.nan)
        self._load = np.full(_FIRST_SIZE, np.nan)
        self._pool = np.zeros(_FIRST_SIZE, np.intp)
        self._zone = np.zeros(_FIRST_SIZE, np.intp)
        self._region = np.zeros(_FIRST_SIZE, np.intp)

    def put(self, facts: NodeFacts) -> None:
        """Add or update a node."""
        slot = self._slots.get(facts.name)
        if slot is None:
            slot = self._slots[facts.name] = self._free.pop() if self._free else self._next()
            self._version += 1
        reading = facts.reading
        ends, kind = reading.notice is not None, _CODES[reading.capacity]
        if ends != self.ends[slot]:
            self._risks_until = -np.inf
        if (ends, kind) != (self.ends[slot], self.kind[slot]):
            self._marks += 1
        self.ends[slot] = ends
        self.kind[slot] = kind
        self._risky[slot] = bool(reading.risky)
        self._price[slot] = np.nan if facts.price is None else facts.price
        self._pool[slot] = self._number("pool", reading.pool)
        self._zone[slot] = self._number("zone", facts.zone)
        self._region[slot] = self._number("region", facts.region)
        self.loaded(facts)

    def loaded(self, facts: NodeFacts) -> None:
        """Update the load of a node."""
        slot = self._slots.get(facts.name)
        if slot is not None:
            load = facts.load
            self._load[slot] = np.nan if load is None else load

    def remove(self, name: str) -> None:
        """Remove a node."""
        slot = self._slots.pop(name, None)
        if slot is not None:
            self._free.append(slot)
            self._version += 1

    def slot(self, name: str) -> int:
        """The slot of a node; 0 if it is unknown."""
        return self._slots.get(name, 0)

    def named(self, raw: bytes, read: Callable[[bytes], Sequence[str]]) -> Named:
        """The nodes of a list of names in its raw form; `read` decodes it."""
        known = self._named.get(raw)
        if known is not None and known.version == self._version:
            self._named.move_to_end(raw)
            return known
        if known is None:
            names = read(raw)
            entries: Sequence[str] = [f'{{"Host":{_encode(name).decode()},"Score":' for name in names]
        else:
            names, entries = known.names, known.entries
        slots = np.fromiter((self._slots.get(name, 0) for name in names), np.intp, len(names))
        made = Named(names, slots, entries, self._version)
        if len(raw) > _LARGEST:
            return made
        self._named[raw] = made
        self._named.move_to_end(raw)
        if len(self._named) > _KEPT:
            self._named.popitem(last=False)
        return made

    def verdicts(self, named: Named, refused: tuple[bool, ...]) -> tuple[Sequence[str], Sequence[int]]:
        """The names that pass, and the indices of the others: they are about to end, or of a refused kind."""
        known = named.verdicts.get(refused)
        if known is None or known[0] != self._marks:
            out = np.flatnonzero(self.ends[named.slots] | np.array(refused)[self.kind[named.slots]]).tolist()
            passed = named.names
            if out:
                gone = set(out)
                passed = [name for place, name in enumerate(named.names) if place not in gone]
            known = named.verdicts[refused] = self._marks, passed, out
        return known[1], known[2]

    def scores(
        self, slots: Slots, policy: Policy, *, near: Near | None, risks: Risks, weights: Weights, now: float
    ) -> Floats:
        """The scores of nodes, from 0 to 1; 0 for those that are about to end."""
        leaves = self.kind[slots] == _SPOT
        risk = self._risk_of_pools(risks, now)[self._pool[slots]]
        risk = np.where(leaves, np.where(self._risky[slots], np.maximum(risk, RISKY), risk), 0.0)
        measured = (
            weights.capacity
            * (leaves.astype(np.float64) if policy.preference is SpotPreference.PREFER else np.ones(len(slots)))
            + weights.risk * (1.0 - risk)
            + weights.price * _cheap(self._price[slots])
            + weights.load * _good(self._load[slots])
            + weights.distance * (np.full(len(slots), NEUTRAL) if near is None else self._closeness(slots, near))
        )
        found: Floats = np.where(self.ends[slots], 0.0, measured / weights.total)
        return found

    def _closeness(self, slots: Slots, near: Near) -> Floats:
        here, zone, region, far = near.distances
        there = np.array(near.nodes)
        away = np.where(
            self._among("zone", self._zone, there)[self._zone[slots]],
            zone,
            np.where(self._among("region", self._region, there)[self._region[slots]], region, far),
        )
        nearest = np.zeros(len(self.ends), bool)
        nearest[there] = True
        return _good(np.where(nearest[slots], here, away))

    def _among(self, kind: str, column: npt.NDArray[np.intp], there: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """Which zones or regions contain one of some nodes; an empty name matches nothing."""
        found = np.zeros(len(self._numbers[kind]), bool)
        found[column[there]] = True
        found[0] = False
        return found

    def _risk_of_pools(self, risks: Risks, now: float) -> Floats:
        pools = self._numbers["pool"]
        if now >= self._risks_until or len(pools) != len(self._risks):
            self._risks = np.fromiter((risks.risk(pool, now=now) for pool in pools), np.float64, len(pools))
            self._risks_until = now + _RISKS_S
        return self._risks

    def _number(self, kind: str, name: str) -> int:
        """The number of a pool, zone or region; 0 for an empty name."""
        return self._numbers[kind].setdefault(name, len(self._numbers[kind]))

    def _next(self) -> int:
        slot = self._top
        self._top += 1
        if slot == len(self.ends):
            for name in _COLUMNS:
                setattr(self, name, np.tile(getattr(self, name), 2))
        return slot


def _cheap(price: Floats) -> Floats:
    told = ~np.isnan(price)
    dearest = float(price[told].max()) if told.any() else 0.0
    if not dearest:
        return np.full(len(price), NEUTRAL)
    return np.where(told, 1.0 - np.minimum(1.0, np.where(told, price, 0.0) / dearest), NEUTRAL)


def _good(bad: Floats) -> Floats:
    return np.where(np.isnan(bad), NEUTRAL, 1.0 - np.clip(bad, 0.0, 1.0))
