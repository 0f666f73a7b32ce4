"""The newest known version of an object: the cache's, or the answer to an own write that the cache has not seen yet.

A loop that decides from its cache alone could take an older state for the present one, and not write a change back.
"""

from collections.abc import Hashable
from typing import Any, Final, Generic, TypeAlias, TypeVar

from rota.api import meta

Object: TypeAlias = dict[str, Any]
K = TypeVar("K", bound=Hashable)


class OwnWrites(Generic[K]):
    """The answers to writes, each until the cache has caught up."""

    def __init__(self) -> None:
        self._answers: Final[dict[K, Object]] = {}

    def note(self, key: K, answer: Object) -> None:
        """Remember the answer to a write."""
        self._answers[key] = answer

    def newest(self, key: K, cached: Object | None) -> Object | None:
        """The newer one of the cached object and the answer to the last write."""
        answer = self._answers.get(key)
        if answer is None:
            return cached
        if cached is not None and _version(cached) >= _version(answer):
            del self._answers[key]
            return cached
        return answer

    def seen(self, key: K, new: Object | None) -> None:
        """An event of the cache: drop an answer that is not newer, or whose object is gone."""
        answer = self._answers.get(key)
        if answer is not None and (new is None or _version(new) >= _version(answer)):
            del self._answers[key]

    def forget(self, key: K) -> None:
        """Trust the cache again, after a write that was refused."""
        self._answers.pop(key, None)


def _version(obj: Object) -> int:
    try:
        return int(meta.metadata(obj).get("resourceVersion") or 0)
    except ValueError:
        return 0
