"""What a controller has written and its cache has not shown yet, by owner. Pure but for the clock.

A controller that counts what it owns in a cache must not count before its own last writes are in there, or it would do
them again. `expect` comes before a request, `confirm` or `drop` after it, `observe` with every change of the cache;
while an owner is not `settled`, it is left alone. What never shows up is given up after five minutes, as upstream does
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
    """A write on its way into the cache."""

    owner: str
    #: Whether it is enough, and needed, that the object is seen on its way out.
    going: bool
    #: Of which object; empty until the answer to its creation has come.
    uid: str
    #: The version that the cache has to reach; None until the answer has come.
    version: int | str | None = None
    #: What the cache has shown meanwhile: the versions by uid, None for those that are gone.
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
        #: The keys of what is awaited by owner, and since when. A set is never empty.
        self._owners: Final[dict[str, tuple[float, set[Key]]]] = {}

    def expect(self, owner: str, key: Key, *, of: Object | None = None, going: bool = False) -> None:
        """A write is about to be sent: a creation, or a change (or, `going`, the deletion) of an object that is known.

        What is known of it counts as shown, so that a change that changes nothing, of which no news will come, is over
        with its answer.
        """
        before = self._awaited.get(key)
        self.drop(key)
        awaited = _Awaited(owner=owner, going=going, uid="" if of is None else meta.uid(of))
        if of is not None:
            awaited.shown[awaited.uid] = _version(of)
        if before is not None and before.uid == awaited.uid:
            awaited.shown = before.shown  # what is known is what was written last, and that has not been shown
        self._awaited[key] = awaited
        self._owners.setdefault(owner, (self._clock.monotonic(), set()))[1].add(key)

    def confirm(self, key: Key, answer: Object) -> None:
        """The write was done; what the server answered."""
        awaited = self._awaited.get(key)
        if awaited is None:
            return
        awaited.uid = awaited.uid or meta.uid(answer)
        awaited.version = parse_version(str(meta.metadata(answer).get("resourceVersion", "")))
        self._settle(key, awaited)

    def drop(self, key: Key) -> None:
        """The write was refused, or nobody waits for it any more."""
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
        """Whether the cache has all that was written for an owner, or will never have it."""
        waiting = self._owners.get(owner)
        if waiting is None:
            return True
        if self._clock.monotonic() - waiting[0] < TIMEOUT_S:
            return False
        self.forget(owner)
        return True

    def patience_s(self, owner: str) -> float:
        """After how long an owner that is not settled should be looked at even so."""
        waiting = self._owners.get(owner)
        return 0.0 if waiting is None else max(waiting[0] + TIMEOUT_S - self._clock.monotonic(), 0.0)

    def forget(self, owner: str) -> None:
        """Nobody asks for an owner any more."""
        for key in list(self._owners.get(owner, (0.0, ()))[1]):
            self.drop(key)

    def _settle(self, key: Key, awaited: _Awaited) -> None:
        if awaited.fulfilled():
            self.drop(key)


def _version(obj: Object) -> int | str:
    return parse_version(str(meta.metadata(obj).get("resourceVersion", "")))
