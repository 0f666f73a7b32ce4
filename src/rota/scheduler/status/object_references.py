"""References to objects in status patches and events."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rota.columns.pods import PodInfo


class ObjectReference(Protocol):
    """A pod that a status patch or an event is about; `PodInfo` is one."""

    @property
    def uid(self) -> str:
        """Its uid."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def key(self) -> str:
        """namespace/name."""

    @property
    def nominated_node(self) -> str:
        """Its nominated node on the API server."""


@dataclass(frozen=True, slots=True)
class Named:
    """A pod of which only the name is known."""

    uid: str
    name: str
    namespace: str
    nominated_node: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Named":
        """From a document."""
        metadata = document["metadata"]
        return cls(metadata.get("uid") or "", metadata.get("name") or "", metadata.get("namespace") or "")

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


def of_pod(pod: PodInfo) -> dict[str, Any]:
    """A pod in the form that event recorders take."""
    metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
