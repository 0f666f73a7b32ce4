"""Refuses pods that request reclaimed capacity (`rota.api.reclaimed`) in a way that no worker could keep."""

from typing import ClassVar, Final

from rota.api import errors, fields, meta, reclaimed
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Object

_PODS: Final = GroupResource("", "pods")


class BatchClass:
    """An `Admission` for new pods."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Invalid if a batch pod has other resources than those of its class, or lacks one of them."""
        if new is None or old is not None or at.subresource or at.resource.group_resource != _PODS:
            return
        found = [fields.forbidden(fields.Path(path), text) for path, text in reclaimed.problems(new)]
        if found:
            raise errors.invalid(at.resource.group_kind, meta.name(new) or at.name, found)
