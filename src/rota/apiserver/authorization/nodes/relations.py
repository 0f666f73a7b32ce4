"""Which objects are related to which nodes: through the pods on them, and through the volumes of these pods. No I/O.

    node <- pod <- secret, config map, service account, resource claim, volume claim
    node <- pod <- volume claim <- volume <- secret
    node <- volume attachment, resource slice, run of a pipeline whose shared folder is on it

Of every pod only its node and its references are kept, to use little memory.
"""

from collections import Counter
from typing import Final

from rota.apiserver.authorization.nodes.references import SECRETS, Reference

VOLUMES: Final = "persistentvolumes"
#: Related to the node that they name: volume attachments, resource slices.
ATTACHMENTS: Final = "volumeattachments"
SLICES: Final = "resourceslices"
PODS: Final = "pods"
#: Related by its shared folder.
RUNS: Final = "pipelineruns"


class Relations:
    """The relations; updated with every change."""

    def __init__(self) -> None:
        self._pods: Final[dict[tuple[str, str], tuple[str, frozenset[Reference]]]] = {}
        #: How many pods on a node need an object.
        self._needs: Final[dict[Reference, Counter[str]]] = {}
        self._volumes: Final[dict[str, tuple[Reference | None, frozenset[Reference]]]] = {}
        #: Volumes by the secrets that they need.
        self._by_secret: Final[dict[Reference, set[str]]] = {}
        self._naming: Final[dict[tuple[str, str], str]] = {}
        self._runs: Final[dict[tuple[str, str], str]] = {}

    def put_pod(self, namespace: str, name: str, node: str, needs: frozenset[Reference]) -> None:
        """A pod is on a node now, or, without one, on none."""
        before, needed = self._pods.pop((namespace, name), ("", frozenset()))
        for reference in needed:
            nodes = self._needs[reference]
            nodes[before] -= 1
            if not nodes[before]:
                del nodes[before]
            if not nodes:
                del self._needs[reference]
        if node:
            self._pods[namespace, name] = node, needs
            for reference in needs:
                self._needs.setdefault(reference, Counter())[node] += 1

    def pods(self) -> set[tuple[str, str]]:
        """All pods that are on nodes."""
        return set(self._pods)

    def put_volume(self, name: str, claim: Reference | None, secrets: frozenset[Reference]) -> None:
        """A persistent volume is bound to a claim now, or to none."""
        _, before = self._volumes.pop(name, (None, frozenset[Reference]()))
        for secret in before:
            self._by_secret[secret].discard(name)
            if not self._by_secret[secret]:
                del self._by_secret[secret]
        if claim is not None:
            self._volumes[name] = claim, secrets
            for secret in secrets:
                self._by_secret.setdefault(secret, set()).add(name)

    def put_naming(self, resource: str, name: str, node: str) -> None:
        """An object names a node now, or none."""
        if node:
            self._naming[resource, name] = node
        else:
            self._naming.pop((resource, name), None)

    def put_run(self, namespace: str, name: str, node: str) -> None:
        """The shared folder of a run is on a node now, or, without one, on none."""
        if node:
            self._runs[namespace, name] = node
        else:
            self._runs.pop((namespace, name), None)

    def runs(self) -> set[tuple[str, str]]:
        """All runs whose shared folders are on nodes."""
        return set(self._runs)

    def related(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Whether an object is related to a node."""
        if resource == PODS:
            return self._pods.get((namespace, name), ("",))[0] == node
        if resource == RUNS:
            return self._runs.get((namespace, name)) == node
        if resource in {ATTACHMENTS, SLICES}:
            return self._naming.get((resource, name)) == node
        if resource == VOLUMES:
            return self._has_volume(node, name)
        reference = Reference(resource, namespace, name)
        if node in self._needs.get(reference, ()):
            return True
        return resource == SECRETS and any(self._has_volume(node, one) for one in self._by_secret.get(reference, ()))

    def _has_volume(self, node: str, volume: str) -> bool:
        claim, _ = self._volumes.get(volume, (None, None))
        return claim is not None and node in self._needs.get(claim, ())
