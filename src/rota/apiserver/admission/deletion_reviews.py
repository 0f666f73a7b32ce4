"""Policies and webhooks of users that validate, for deletions: these have no validation to run after."""

from collections.abc import Sequence
from typing import ClassVar, Final

from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Admission, Attributes, Object


class DeletionReviews:
    """An `Admission` that applies others to deletions, before the object is deleted."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    def __init__(self, plugins: Sequence[Admission]) -> None:
        self._plugins: Final = tuple(plugins)

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Admit everything but deletions that one of them refuses."""
        if new is None:
            for plugin in self._plugins:
                await plugin.admit(at, new, old)
