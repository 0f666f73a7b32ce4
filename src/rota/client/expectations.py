"""Expectations: writes of a controller that its cache does not show yet, by owner. Pure but for the clock.

A controller that counts its objects in a cache must not count before its own last writes are in there, or it would
repeat them. `expect` comes before a request, `confirm` or `drop` after it, `observe` with every change of the cache; an
owner that is not `settled` is left alone. A write that never shows up is given up after five minutes, as upstream does
(`pkg/controller/controller_utils.go`, 1.36).
"""

from dataclasses import dataclass, field
from typing import Final

from rota.api import meta
from rota.api.meta import Object
from rota.client.informers.cache import Key, parse_version
from rota.kit.clock import Clock

TIMEOUT_S: Final = 300.0


@dataclass(slots=True, kw_only=True)
class _Awaited:
    """A write that the cache does not show yet."""

    owner: str
    #: Whether the object has to be seen as terminating, which is enough.
    going: bool
    #: The object; empty until its creation was answered.
    uid: str
    #: The version that the cache has to reach; None before the answer.
    version: int | str | None = None
    #: What the cache has shown meanwhile: the versions by uid, None for deleted ones.
    shown: dict[str, int | str | None] = field(default_factory=dict)

    def fulfilled(self) -> bool:
        """Whether the cache has shown it."""
        if not self.uid or self.uid not in self.shown:
            return False
        seen = self.shown[self.uid]
        if seen is None:
            return True
        if self.going or self.version is None:
            return False
        if isinstance(seen, int) and isinstance(self.version, int):
            return seen >= self.version
        return seen == self.version


class Expectations:
    """The writes of one controller."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._awaited: Final[dict[Key, _Awaited]] = {}
        #: The keys of expected writes by owner, and since when. Sets are never empty.
        self._owners: Final[dict[str, tuple[float, set[Key]]]] = {}

    def expect(self, owner: str, key: Key, *, of: Object | None = None, going: bool = False) -> None:
        """A write is about to be sent: a creation, or a change (or, `going`, the deletion) of a known object.

        Its known version counts as shown, so that a write without an effect, which causes no event, is fulfilled by its
        answer.
        """
        before = self._awaited.get(key)
        self.drop(key)
        awaited = _Awaited(owner=owner, going=going, uid="" if of is None else meta.uid(of))
        if of is not None:
            awaited.shown[awaited.uid] = _version(of)
        if before is not None and before.uid == awaited.uid:
            awaited.shown = before.shown  # the known version is that of the last write, which has not been shown
        self._awaited[key] = awaited
        self._owners.setdefault(owner, (self._clock.monotonic(), set()))[1].add(key)

    def confirm(self, key: Key, answer: Object) -> None:
        """The write succeeded with this answer."""
        awaited = self._awaited.get(key)
        if awaited is None:
            return
        awaited.uid = awaited.uid or meta.uid(answer)
        awaited.version = parse_version(str(meta.metadata(answer).get("resourceVersion", "")))
        self._settle(key, awaited)

    def drop(self, key: Key) -> None:
        """The write was refused, or is no longer relevant."""
        awaited = self._awaited.pop(key, None)
        if awaited is not None:
            _, keys = self._owners[awaited.owner]
            keys.discard(key)
            if not keys:
                del self._owners[awaited.owner]

    def observe(self, key: Key, old: Object | None, new: Object | None) -> None:
        """The cache has changed."""
        awaited = self._awaited.get(key)
        if awaited is None:
            return
        if new is None:
            awaited.shown[meta.uid(old or {})] = None
        else:
            leaving = awaited.going and meta.is_deleting(new)
            awaited.shown[meta.uid(new)] = None if leaving else _version(new)
        self._settle(key, awaited)

    def settled(self, owner: str) -> bool:
        """Whether the cache has all writes of an owner, or will never have them."""
        waiting = self._owners.get(owner)
        if waiting is None:
            return True
        if self._clock.monotonic() - waiting[0] < TIMEOUT_S:
            return False
        self.forget(owner)
        return True

    def patience_s(self, owner: str) -> float:
        """After how long an owner that is not settled should be processed anyway."""
        waiting = self._owners.get(owner)
        return 0.0 if waiting is None else max(waiting[0] + TIMEOUT_S - self._clock.monotonic(), 0.0)

    def forget(self, owner: str) -> None:
        """Drop an owner."""
        for key in list(self._owners.get(owner, (0.0, ()))[1]):
            self.drop(key)

    def _settle(self, key: Key, awaited: _Awaited) -> None:
        if awaited.fulfilled():
            self.drop(key)


def _version(obj: Object) -> int | str:
    return parse_version(str(meta.metadata(obj).get("resourceVersion", "")))
