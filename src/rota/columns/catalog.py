"""The catalog: objects of other kinds that plugins read: namespaces, services, budgets, claims, volumes.

They are few and change rarely, so they are kept as plain JSON data by kind, with a version per kind for readers that
cache derived values.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakSet

from rota.columns.deltas import DeltaLog

Document = Mapping[str, Any]
_NONE: Mapping[str, str] = {}


class Catalog:
    """Objects by kind, namespace and name. Kinds are singular, as in manifests: "Service"."""

    __slots__ = ("_kinds", "_versions", "followers", "generation")

    def __init__(self) -> None:
        #: Logs that record every change.
        self.followers: WeakSet[DeltaLog] = WeakSet()
        #: Counts all changes.
        self.generation = 0
        self._kinds: dict[str, dict[tuple[str, str], Document]] = {}
        self._versions: dict[str, int] = {}

    def put(self, kind: str, document: Document) -> None:
        """Add or replace an object."""
        self._tell("put", kind, document)
        meta = document["metadata"]
        self._kinds.setdefault(kind, {})[meta.get("namespace") or "", meta["name"]] = document
        self._changed(kind)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object, if it exists."""
        self._tell("remove", kind, namespace, name)
        if self._kinds.get(kind, {}).pop((namespace, name), None) is not None:
            self._changed(kind)

    def get(self, kind: str, *, namespace: str = "", name: str) -> Document | None:
        """An object."""
        return self._kinds.get(kind, {}).get((namespace, name))

    def list(self, kind: str, *, namespace: str | None = None) -> Iterator[Document]:
        """All objects of a kind, of one namespace if given, in order of arrival."""
        for (where, _), document in self._kinds.get(kind, {}).items():
            if namespace is None or where == namespace:
                yield document

    def everything(self) -> Iterator[tuple[str, Document]]:
        """All objects of all kinds, each with its kind, in order of arrival within a kind."""
        return ((kind, document) for kind, known in self._kinds.items() for document in known.values())

    def version(self, *kinds: str) -> int:
        """A number that changes whenever an object of one of the kinds does."""
        versions = self._versions
        return sum([versions.get(kind, 0) for kind in kinds]) if versions else 0

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; empty if it is unknown."""
        document = self.get("Namespace", name=namespace)
        return (document["metadata"].get("labels") or _NONE) if document is not None else _NONE

    def copy(self) -> "Catalog":
        """An independent catalog; the objects are shared."""
        twin = Catalog()
        twin._kinds = {kind: dict(documents) for kind, documents in self._kinds.items()}
        twin._versions = dict(self._versions)
        twin.generation = self.generation
        return twin

    def _tell(self, method: str, *args: Any) -> None:
        for log in self.followers:
            log.entries.append((f"catalog.{method}", args))

    def _changed(self, kind: str) -> None:
        self.generation += 1
        self._versions[kind] = self._versions.get(kind, 0) + 1
