"""Objects of a kind as they are, without the fields that only servers read: for kinds with few objects."""

from collections.abc import Sequence
from typing import Any, Final

from rota.client.informers.cache import Key
from rota.web.views.view import Table


def read(obj: dict[str, Any]) -> dict[str, Any]:
    """An object without its managed fields."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    notes = metadata.get("annotations")
    if notes:
        metadata["annotations"] = {
            name: value for name, value in notes.items() if name != "kubectl.kubernetes.io/last-applied-configuration"
        }
    return {**obj, "metadata": metadata}


class ObjectTable:
    """All objects of a kind, or those of one namespace."""

    def __init__(self, namespace: str = "") -> None:
        self._namespace: Final = namespace
        self._table: Final = Table[dict[str, Any]](("object",))

    def apply(self, collection: str, key: Key, old: Any, new: dict[str, Any] | None, now: float, /) -> None:
        """See `View.apply`."""
        if self._namespace and key.namespace != self._namespace:
            return
        name = f"{key.namespace}/{key.name}"
        if new is None:
            self._table.drop(name)
        else:
            self._table.put(name, new)

    def begin(self) -> Sequence[object]:
        """See `View.begin`."""
        return self._table.begin()

    def delta(self, now: float, /) -> object | None:
        """See `View.delta`."""
        return self._table.delta(now)
