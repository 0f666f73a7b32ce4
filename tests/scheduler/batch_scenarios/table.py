"""The table of scenarios: every row, the configuration it needs, and the room on its nodes."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from types import ModuleType
from typing import Final

from tests.scheduler.batch_scenarios import first_rows, gang_evict_rows, preempt_rows, reclaim_rows
from tests.scheduler.batch_scenarios.confs import IN_TURN
from tests.scheduler.batch_scenarios.stage import LANES, Lane, Scenario

_ONE, _TWO, _SIX, _EIGHTS = (4,), (2, 2), (3, 3), (8, 8, 8, 8)
#: By configuration and module, the rows with the amount of the resource on each node.
_ROOM: Final[dict[tuple[str, ModuleType], dict[str, tuple[int, ...]]]] = {
    ("usual", first_rows): {
        **dict.fromkeys(
            ("allocate-1", "allocate-2", "allocate-3", "allocate-4", "gates", "gated-enqueue", "mixed"), _ONE
        ),
        **dict.fromkeys(("gang", "gang-full", "statement"), _TWO),
        "binpack": (4, 4),
    },
    ("usual", preempt_rows): dict.fromkeys(("preempt-1", "preempt-3"), _ONE),
    ("preempt", first_rows): {"enqueue-off": _ONE},
    ("preempt", preempt_rows): {
        **dict.fromkeys(("preempt-2", "preempt-4", "preempt-5", "preempt-6", "preempt-7"), _TWO),
        "preempt-8": (1, 2),
    },
    ("drf", preempt_rows): {"drf": (4, 4)},
    ("capacity", reclaim_rows): {
        **dict.fromkeys(("reclaim-1", "reclaim-2", "reclaim-3", "reclaim-4", "reclaim-5", "reclaim-6"), _TWO),
        **dict.fromkeys(("reclaim-7", "reclaim-9"), _TWO),
        **dict.fromkeys(("reclaim-8", "reclaim-12"), _ONE),
        "reclaim-11": _SIX,
    },
    ("gang-preempt", gang_evict_rows): {
        **dict.fromkeys([f"gp-{number}" for number in range(1, 9)], _TWO),
        **dict.fromkeys(("gp-r1", "gp-s1"), _TWO),
        **dict.fromkeys(("gp-t1", "gp-t4"), (1, 1, 1, 1)),
        **dict.fromkeys(("gp-t2", "gp-t3"), _EIGHTS),
    },
    ("gang-reclaim", gang_evict_rows): {
        **dict.fromkeys([f"gr-{number}" for number in range(1, 8)], _TWO),
        **dict.fromkeys(("gr-r1", "gr-s1"), _TWO),
        **dict.fromkeys(("gr-t1", "gr-t4"), (1, 1, 1, 1)),
        **dict.fromkeys(("gr-t2", "gr-t3"), _EIGHTS),
    },
    ("proportion", first_rows): {
        **dict.fromkeys(("allocate-5", "guarantee", "guarantee-all"), _ONE),
        "fair-share": (4, 4),
    },
    ("proportion", reclaim_rows): {"reclaim-10": _SIX, "reclaim-last": _TWO},
}


def _scenarios() -> Iterator[Scenario]:
    numbers = defaultdict[str, Iterator[int]](itertools.count)
    for (conf, module), rows in _ROOM.items():
        for name, room in rows.items():
            lane = Lane(0 if conf in IN_TURN else next(numbers[conf]) % LANES)
            yield Scenario(name, conf, getattr(module, name.replace("-", "_")), room, lane)


SCENARIOS: Final = tuple(_scenarios())
#: Those that run with real processes, too.
LIVE: Final = tuple(one for one in SCENARIOS if one.name in IN_TURN.get(one.conf, (one.name,)))
