"""Who a note or an event is about: the few fields by which an object is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rota.columns.pods import PodInfo


class ObjectReference(Protocol):
    """A pod that something is written on; `PodInfo` is one."""

    @property
    def uid(self) -> str:
        """Which pod it is."""

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
        """The node that the API server says it is nominated to."""


@dataclass(frozen=True, slots=True)
class Named:
    """A pod of which no more is known than its name."""

    uid: str
    name: str
    namespace: str
    nominated_node: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Named":
        """Read it off a document."""
        metadata = document["metadata"]
        return cls(metadata.get("uid") or "", metadata.get("name") or "", metadata.get("namespace") or "")

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


def of_pod(pod: PodInfo) -> dict[str, Any]:
    """Give a pod as event recorders take objects."""
    metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
