"""How much one of several schedulers knows of what the others bind, and whether its bindings depend on that. Pure.

The synchronisation says when it learns the bindings of others. Full: at once, as the watch brings them. RoundRobin: the
nodes are divided into as many parts as there are schedulers, and in each round it learns another part (ParSync).
FreshestFirst: the same, and among equally good nodes it begins with the part that it learned last.

The criterion says when a binding conflicts. Fine: if the pod does not fit the node now. Coarse: if another pod was
bound to the node since this scheduler learned it (Omega's sequence numbers). Both exist so that their costs can be
compared; Full and Fine are the default, and the best.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from rota.client.informers.cache import Key
from rota.columns.pods import PodInfo
from rota.scheduler.ingest.event_handlers import Pod

#: Versions of own bindings that are kept, besides two for each node, before those of nodes that are gone are dropped.
_SPARE: Final = 64
#: A change of a pod: its key, the pod before and after.
Change: TypeAlias = tuple[Key, Pod | None, Pod | None]


class Criterion(enum.Enum):
    """When a binding conflicts."""

    FINE = "Fine"
    COARSE = "Coarse"


class Synchronisation(enum.Enum):
    """When a scheduler learns the bindings of others."""

    FULL = "Full"
    ROUND_ROBIN = "RoundRobin"
    FRESHEST_FIRST = "FreshestFirst"


@dataclass(frozen=True, slots=True)
class Choices:
    """What the operator chose."""

    criterion: Criterion = Criterion.FINE
    synchronisation: Synchronisation = Synchronisation.FULL


class NodeKnowledge:
    """Changes that are kept back until the part of their node is learned, and the versions of the parts."""

    def __init__(self, row: Callable[[str], int | None], size: Callable[[], int], version: Callable[[], str]) -> None:
        """Rows of nodes by name, how many there are, and the resourceVersion of the last change that has arrived."""
        self._row: Final = row
        self._size: Final = size
        self._version: Final = version
        self.choices = Choices()
        self._parts = 1
        self._rounds = 0
        #: By pod: what was known before the first change that is kept back, and the pod after the last one.
        self._held: Final[dict[Key, Change]] = {}
        #: The version at which each part was learned, for the present division.
        self._learned: list[int] = []
        self._divided: tuple[int, int] = (0, 0)
        #: By node: the version of this scheduler's last binding there, which it need not learn.
        self._own: Final[dict[str, int]] = {}

    def __len__(self) -> int:
        """How many pods have changes that are kept back."""
        return len(self._held)

    @property
    def partial(self) -> bool:
        """Whether changes are kept back."""
        return self._parts > 1 and self.choices.synchronisation is not Synchronisation.FULL

    def configure(self, choices: Choices, parts: int) -> list[Change]:
        """Choose anew, or for another number of schedulers; returns the changes to apply now."""
        self.choices, self._parts = choices, max(1, parts)
        return self.all()

    def all(self) -> list[Change]:
        """Learn everything; returns the changes to apply."""
        self._divided = (self._parts, self._size())
        self._learned = [_number(self._version())] * self._parts
        changes = list(self._held.values())
        self._held.clear()
        return changes

    def holds(self, key: Key) -> bool:
        """Whether a pod has changes that are kept back: later ones must not overtake them."""
        return key in self._held

    def hold(self, change: Change) -> list[Change]:
        """Keep a change back; returns those to apply now, if another pod took the name of one whose change is kept."""
        key, old, new = change
        kept = self._held.get(key)
        if kept is not None and _uid(kept[2]) != _uid(old):
            del self._held[key]
            return [kept, change]
        before = old if kept is None else kept[1]
        if kept is not None and before is None and new is None:
            del self._held[key]
        else:
            self._held[key] = (key, before, new)
        return []

    def next_round(self, number: int) -> tuple[list[Change], int]:
        """Learn the next part, for the scheduler with this number; returns the changes to apply, and its first row."""
        self._rounds += 1
        part = (self._rounds + number) % self._parts
        if self._divided != (self._parts, self._size()):
            return self.all(), self._first_row(part)
        self._learned[part] = _number(self._version())
        return self._release(lambda node: self._part(node) in (None, part)), self._first_row(part)

    def learn_node(self, node: str) -> list[Change]:
        """Learn one node, after a conflict there; returns the changes to apply."""
        self._keep_own(node, _number(self._version()))
        return self._release(lambda one: one == node)

    def bound(self, node: str, version: str) -> None:
        """This scheduler has bound a pod there."""
        if self.choices.criterion is Criterion.COARSE:
            self._keep_own(node, _number(version))

    def _keep_own(self, node: str, version: int) -> None:
        self._own[node] = max(self._own.get(node, 0), version)
        if len(self._own) > 2 * self._size() + _SPARE:
            # Nodes come and go under new names.
            for gone in [one for one in self._own if self._row(one) is None]:
                del self._own[gone]

    def seen(self, node: str) -> str:
        """The version up to which the node is known, if bindings depend on it; else empty."""
        if self.choices.criterion is Criterion.FINE:
            self._own.clear()
            return ""
        part = self._part(node) if self.partial and self._divided == (self._parts, self._size()) else None
        learned = _number(self._version()) if part is None else self._learned[part]
        return self.latest(node, str(learned))

    def latest(self, node: str, seen: str) -> str:
        """What was seen there, or the version of this scheduler's own last binding there if that is later."""
        return str(max(_number(seen), self._own.get(node, 0)))

    def _release(self, due: Callable[[str], bool]) -> list[Change]:
        changes = [change for change in self._held.values() if due(_node(change))]
        for key, _, _ in changes:
            del self._held[key]
        return changes

    def _part(self, node: str) -> int | None:
        row, size = self._row(node), self._size()
        return None if row is None or not size else row * self._parts // size

    def _first_row(self, part: int) -> int:
        return -(-part * self._size() // self._parts)


def _node(change: Change) -> str:
    _, old, new = change
    return next((one.node_name for one in (new, old) if isinstance(one, PodInfo) and one.node_name), "")


def _uid(pod: Pod | None) -> str:
    return pod.uid if isinstance(pod, PodInfo) else ""


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
