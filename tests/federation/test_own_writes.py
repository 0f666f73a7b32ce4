"""Which of two versions of an object is the newest known one."""

from collections.abc import Callable
from typing import Any

from rota.federation.own_writes import OwnWrites


def at(version: int) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version)}}


def test_an_answer_counts_until_the_cache_has_caught_up() -> None:
    own = OwnWrites[str]()
    assert own.newest("a", at(4)) == at(4)
    own.note("a", at(7))
    assert own.newest("a", None) == own.newest("a", at(4)) == at(7)
    assert own.newest("a", at(8)) == at(8)
    assert own.newest("a", at(4)) == at(4), "the answer was dropped when the cache was newer"


def test_events_and_refusals_drop_an_answer() -> None:
    own = OwnWrites[str]()
    drops: list[Callable[[], None]] = [
        lambda: own.seen("a", at(9)),
        lambda: own.seen("a", None),
        lambda: own.forget("a"),
    ]
    for drop in drops:
        own.note("a", at(9))
        own.seen("a", at(8))
        assert own.newest("a", at(8)) == at(9)
        drop()
        assert own.newest("a", at(8)) == at(8)
