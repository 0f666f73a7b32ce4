"""Objects of a kind as they are, without the fields that only servers read: for kinds with few objects."""

from typing import Any

from rota.web.views.view import Rows


def read(obj: dict[str, Any]) -> dict[str, Any]:
    """An object without its managed fields."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    notes = metadata.get("annotations")
    if notes:
        metadata["annotations"] = {
            name: value for name, value in notes.items() if name != "kubectl.kubernetes.io/last-applied-configuration"
        }
    return {**obj, "metadata": metadata}


class ObjectTable(Rows[dict[str, Any]]):
    """All objects of a kind, or those of one namespace."""

    def __init__(self, namespace: str = "") -> None:
        super().__init__(("object",), namespace)
