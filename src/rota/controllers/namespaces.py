"""Deletes the content of terminating namespaces, and then finalizes them.

A terminating namespace keeps `spec.finalizers: [kubernetes]` until this controller has deleted everything in it: pods
first, because they may need the rest, then all other served kinds, custom ones included. The namespace's conditions
report what remains and why. Rules and messages are upstream's (`pkg/controller/namespace`, 1.37). `judge` is the pure
part: from the remaining content to conditions and the next retry.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rota.api import errors, meta, times
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.client import discovery
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Propagation
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

NAMESPACES: Final = ("", "v1", "namespaces")
_FINALIZER: Final = "kubernetes"
_PODS: Final = GroupResource("", "pods")
#: The estimated time that other finalizers take.
_FINALIZER_S: Final = 15
#: When to retry after a server error.
_TROUBLE_S: Final = 10.0
_WORKERS: Final = 4


@dataclass(slots=True)
class RemainingContent:
    """The content that remains in a namespace after the deletions."""

    #: Objects by resource.
    counts: dict[str, int] = field(default_factory=dict)
    #: Objects by finalizer.
    finalizers: dict[str, int] = field(default_factory=dict)
    #: Errors of deletions and lists.
    failures: list[str] = field(default_factory=list)
    #: Groups whose discovery failed.
    undiscovered: tuple[str, ...] = ()
    #: The longest grace period that is still running.
    grace_s: int = 0

    def add(self, resource: ResourceType, objects: Sequence[Mapping[str, Any]]) -> None:
        """Count the remaining objects of a resource."""
        if objects:
            # Upstream's name of a resource: the dot stays where the group is empty.
            self.counts[f"{resource.plural}.{resource.group}"] = len(objects)
        for obj in objects:
            for name in meta.finalizers(obj):
                self.finalizers[name] = self.finalizers.get(name, 0) + 1
            grace = meta.metadata(obj).get("deletionGracePeriodSeconds") or 0
            self.grace_s = max(self.grace_s, grace, _FINALIZER_S if meta.finalizers(obj) else 0)

    @property
    def empty(self) -> bool:
        """Whether certainly nothing remains."""
        return not self.counts and not self.failures and not self.undiscovered


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The conditions of the namespace, and seconds until the next attempt; None if it can be finalized."""

    conditions: list[dict[str, Any]]
    again_after_s: float | None


def judge(present: Sequence[Mapping[str, Any]], remains: RemainingContent, *, now: str) -> Verdict:
    """The conditions of a terminating namespace."""
    discovery_failure = f"Discovery failed for some groups, {len(remains.undiscovered)} failing: " + ", ".join(
        remains.undiscovered
    )
    content_failure = "Failed to delete all resource types, " + _joined(
        len(remains.failures), sorted(remains.failures), "; "
    )
    left = [f"{name} has {count} resource instances" for name, count in sorted(remains.counts.items())]
    held = [f"{name} in {count} resource instances" for name, count in sorted(remains.finalizers.items())]
    found = (
        ("DiscoveryFailure", remains.undiscovered, "DiscoveryFailed", discovery_failure),
        ("GroupVersionParsingFailure", (), "", ""),
        ("ContentFailure", remains.failures, "ContentDeletionFailed", content_failure),
        ("ContentRemaining", left, "SomeResourcesRemain", f"Some resources are remaining: {', '.join(left)}"),
        (
            "FinalizersRemaining",
            held,
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {', '.join(held)}",
        ),
    )
    conditions: Sequence[Mapping[str, Any]] = present
    for name, evidence, reason, message in found:
        kind, good_reason, good_message = _CONDITIONS[name]
        new = {
            "type": kind,
            "status": "True" if evidence else "False",
            "reason": reason if evidence else good_reason,
            "message": message if evidence else good_message,
        }
        conditions = meta.with_condition(conditions, new, now=now)
    trouble_s = _TROUBLE_S if remains.failures or remains.undiscovered else 0.0
    again = None if remains.empty else max(remains.grace_s // 2 + 1.0, trouble_s)
    return Verdict(conditions=[dict(one) for one in conditions], again_after_s=again)


_CONDITIONS: Final = {
    "DiscoveryFailure": (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "GroupVersionParsingFailure": (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "ContentFailure": (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "ContentRemaining": ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    "FinalizersRemaining": (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


def _joined(count: int, texts: Iterable[str], separator: str) -> str:
    return f"{count} remaining: {separator.join(texts)}"


class NamespaceController:
    """Empties terminating namespaces. One per cluster; a second one is harmless, but repeats the work."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._metadata: Final = client.with_settings(metadata_only=True)
        self._clock: Final = clock
        self._frame: Final = Reconciler[str](
            client, "namespaces", self._process, clock=clock, rng=rng, workers=_WORKERS, metrics=metrics
        )
        self._frame.follow(NAMESPACES, self._changed)

    async def run(self) -> None:
        """Empty namespaces until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None and meta.is_deleting(new):
            self._frame.queue.add(key.name)

    async def _process(self, name: str) -> float | None:
        try:
            namespace = await self._client.get(NAMESPACES, name)
            if not meta.is_deleting(namespace) or _FINALIZER not in _spec_finalizers(namespace):
                return None
            remains = await self._empty(name)
            verdict = await self._report(namespace, remains)
            if verdict.again_after_s is None:
                await self._finalize(name)
        except errors.NotFound:
            return None
        except errors.Conflict:
            return 0.1
        return verdict.again_after_s

    async def _empty(self, namespace: str) -> RemainingContent:
        """Delete everything; returns what remains."""
        found = await discovery.discover(self._client)
        remains = RemainingContent(undiscovered=found.failed)
        resources = [one for one in found.preferred() if one.namespaced and {"delete", "list"} <= set(one.verbs)]
        pods = [one for one in resources if one.group_resource == _PODS]
        for resource in pods:
            await self._clear(resource, namespace, remains)
        if remains.counts or remains.failures:
            return remains
        for resource in resources:
            if resource not in pods:
                await self._clear(resource, namespace, remains)
        return remains

    async def _clear(self, resource: ResourceType, namespace: str, remains: RemainingContent) -> None:
        try:
            present = (await self._metadata.list(resource, namespace=namespace)).items
            if not present:
                return
            if any(not meta.is_deleting(one) for one in present):
                await self._delete(resource, namespace, present)
                present = (await self._metadata.list(resource, namespace=namespace)).items
            remains.add(resource, present)
        except (errors.NotFound, errors.MethodNotAllowed):
            # The kind itself was removed meanwhile.
            return
        except (errors.ApiError, TransportError) as error:
            log.warning("namespace content not deleted", namespace=namespace, resource=str(resource), error=error)
            remains.failures.append(f"{resource}: {error}")

    async def _delete(self, resource: ResourceType, namespace: str, present: Sequence[Object]) -> None:
        if "deletecollection" in resource.verbs:
            await self._client.delete_collection(resource, namespace=namespace, propagation=Propagation.BACKGROUND)
            return
        for one in present:
            try:
                await self._client.delete(
                    resource, meta.name(one), namespace=namespace, propagation=Propagation.BACKGROUND
                )
            except errors.NotFound:
                continue

    async def _report(self, namespace: Object, remains: RemainingContent) -> Verdict:
        verdict = judge(meta.conditions(namespace), remains, now=times.format_time(self._clock.now()))
        if verdict.conditions != list(meta.conditions(namespace)):
            status = {**(namespace.get("status") or {}), "conditions": verdict.conditions}
            await self._client.update(NAMESPACES, {**namespace, "status": status}, subresource="status")
        return verdict

    async def _finalize(self, name: str) -> None:
        namespace = await self._client.get(NAMESPACES, name)
        kept = [one for one in _spec_finalizers(namespace) if one != _FINALIZER]
        log.info("namespace is empty", namespace=name)
        spec = {**(namespace.get("spec") or {}), "finalizers": kept}
        await self._client.update(NAMESPACES, {**namespace, "spec": spec}, subresource="finalize")


def _spec_finalizers(namespace: Object) -> Sequence[str]:
    return (namespace.get("spec") or {}).get("finalizers") or ()
