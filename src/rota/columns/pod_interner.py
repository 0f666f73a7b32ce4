"""Decodes pods and nodes for the columns, and interns what pods share.

Decoding a pod checks the types of all fields that placement reads, then looks up its shape by content; only an unknown
shape is computed. Interning is weak: a shape without pods is dropped.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from rota.api import gpu_devices, resources, selectors
from rota.api.selectors import Selector, SelectorError
from rota.columns import objects, shape_codec
from rota.columns.objects import MalformedObjectError
from rota.columns.pods import AffinityTerm, LabelGroup, PodInfo, PodShape, WeightedTerm

#: Volumes that are available on every node, and so never restrict the placement.
_EVERYWHERE = frozenset({"configMap", "secret", "downwardAPI", "projected", "emptyDir", "image", "hostPath"})
_DEFAULT_SCHEDULER = "default-scheduler"
_DEFAULT_NAMESPACE = "default"


class PodInterner:
    """Decodes pods; equal label groups, terms and shapes become the same objects."""

    def __init__(self) -> None:
        self._groups: WeakValueDictionary[tuple[object, ...], LabelGroup] = WeakValueDictionary()
        self._terms: WeakValueDictionary[tuple[object, ...], AffinityTerm] = WeakValueDictionary()
        self._shapes: WeakValueDictionary[bytes, PodShape] = WeakValueDictionary()
        self._contents: WeakKeyDictionary[PodShape, bytes] = WeakKeyDictionary()
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.json.Decoder(objects.Pod).decode

    def pod(self, document: Mapping[str, Any], *, path: str = "pod", keep: bool = False) -> PodInfo:
        """Decode a pod from plain JSON data; `keep` keeps the data itself."""
        view = objects.read(document, objects.Pod, path=path)
        return self._info(view, lambda: document, path, document if keep else None)

    def pod_from_wire(self, raw: bytes, *, path: str = "pod", keep_waiting: bool = False) -> PodInfo:
        """Decode a pod from JSON bytes, fast for very many: most of them never become plain data.

        `keep_waiting` keeps the data of pods without a node. Invalid JSON is a `msgspec.DecodeError`.
        """
        try:
            view = self._decode(raw)
        except msgspec.ValidationError:
            return self.pod(msgspec.json.decode(raw), path=path)  # its error message is better
        kept = raw if keep_waiting and not view.spec.nodeName else None
        return self._info(view, lambda: msgspec.json.decode(raw), path, kept)

    def _info(
        self,
        view: objects.Pod,
        document: Callable[[], Mapping[str, Any]],
        path: str,
        kept: Mapping[str, Any] | bytes | None,
    ) -> PodInfo:
        meta, status = view.metadata, view.status
        shape = self._shape(document, view, path)
        return PodInfo(
            uid=meta.uid or f"{shape.group.namespace}/{meta.name}",
            name=meta.name,
            shape=shape,
            node_name=view.spec.nodeName or "",
            nominated_node=status.nominatedNodeName or "",
            start_time=status.startTime or "",
            preempted=_is_preempted(status),
            gpu_devices=gpu_devices.of_annotations(meta.annotations) if view.spec.nodeName else (),
            kept=kept,
        )

    def _shape(self, document: Callable[[], Mapping[str, Any]], view: objects.Pod, path: str) -> PodShape:
        meta, spec, status = view.metadata, view.spec, view.status
        volumes: tuple[Mapping[str, Any], ...] = ()
        images: list[str] = []
        if spec.volumes:
            volumes = tuple([volume for volume in spec.volumes if _EVERYWHERE.isdisjoint(volume)])
            images = [volume["image"].get("reference") or "" for volume in spec.volumes if volume.get("image")]
        owner = None
        for each in meta.ownerReferences or ():
            # other owners make no difference here, and pods that differ only in them have one shape
            if each.controller and (each.apiVersion, each.kind) in objects.OWNERS_WITH_SELECTORS:
                owner = each
                break
        bound = bool(spec.nodeName)
        key = self._encode(  # decoded by `shape_codec`
            (
                (meta.namespace, meta.labels, meta.deletionTimestamp is not None, owner, bound),
                (spec.containers, spec.initContainers, spec.overhead, spec.resources, volumes, images),
                (spec.nodeSelector, spec.affinity, spec.tolerations, spec.topologySpreadConstraints),
                (spec.priority, spec.preemptionPolicy, spec.schedulerName, spec.schedulingGates),
                _given(status) if bound else None,
            )
        )
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._new_shape(document(), view, owner, volumes, images, path)
            self._contents[shape] = key
        return shape

    def content(self, shape: PodShape) -> bytes:
        """The content from which a shape of this interner was computed, for `shape`."""
        return self._contents[shape]

    def shape(self, content: bytes) -> PodShape:
        """The shape of a content, of this interner or another one."""
        return self._shapes.get(content) or self.pod(shape_codec.document(content)).shape

    def _new_shape(
        self,
        document: Mapping[str, Any],
        view: objects.Pod,
        owner: objects.OwnerReference | None,
        volumes: tuple[Mapping[str, Any], ...],
        images: list[str],
        path: str,
    ) -> PodShape:
        meta, spec = view.metadata, view.spec
        affinity = spec.affinity or objects.Affinity()
        near, far = affinity.podAffinity or objects.PodAffinity(), affinity.podAntiAffinity or objects.PodAffinity()
        group = self._group(meta)
        names = [container.image or "" for container in (*(spec.initContainers or ()), *spec.containers)]
        try:
            requests, counted = _requests(document, bound=bool(spec.nodeName))
        except ValueError as error:
            raise MalformedObjectError(f"{path}.spec", str(error)) from error
        at = f"{path}.spec.affinity"
        return PodShape(
            group=group,
            priority=spec.priority or 0,
            requests=requests,
            nonzero_requests=counted,
            host_ports=resources.host_ports(document),
            images=tuple(normalized_image(name) for name in (*names, *images)),
            tolerations=tuple(spec.tolerations or ()),
            node_selector=spec.nodeSelector or {},
            node_affinity=affinity.nodeAffinity,
            required_affinity=self._required(near, group, f"{at}.podAffinity"),
            required_anti_affinity=self._required(far, group, f"{at}.podAntiAffinity"),
            preferred_affinity=self._preferred(near, group, f"{at}.podAffinity"),
            preferred_anti_affinity=self._preferred(far, group, f"{at}.podAntiAffinity"),
            spread_constraints=tuple(spec.topologySpreadConstraints or ()),
            preemption_policy=spec.preemptionPolicy or "",
            scheduler_name=spec.schedulerName or _DEFAULT_SCHEDULER,
            scheduling_gates=tuple(gate.name for gate in spec.schedulingGates or ()),
            owner=owner,
            volumes=volumes,
        )

    def _group(self, meta: objects.ObjectMeta) -> LabelGroup:
        labels = meta.labels or {}
        namespace, terminating = meta.namespace or _DEFAULT_NAMESPACE, meta.deletionTimestamp is not None
        key = (namespace, terminating, frozenset(labels.items()))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = LabelGroup(namespace, labels, terminating)
        return group

    def _required(self, affinity: objects.PodAffinity, group: LabelGroup, path: str) -> tuple[AffinityTerm, ...]:
        place = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
        terms = affinity.requiredDuringSchedulingIgnoredDuringExecution or ()
        return tuple(self._term(term, group, f"{place}[{index}]") for index, term in enumerate(terms))

    def _preferred(self, affinity: objects.PodAffinity, group: LabelGroup, path: str) -> tuple[WeightedTerm, ...]:
        place = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
        terms = affinity.preferredDuringSchedulingIgnoredDuringExecution or ()
        return tuple(
            WeightedTerm(each.weight, self._term(each.podAffinityTerm, group, f"{place}[{index}].podAffinityTerm"))
            for index, each in enumerate(terms)
        )

    def _term(self, term: objects.PodAffinityTerm, group: LabelGroup, path: str) -> AffinityTerm:
        selector = _selector(term.labelSelector, f"{path}.labelSelector")
        chosen = term.namespaceSelector
        namespace_selector = None if chosen is None else _selector(chosen, f"{path}.namespaceSelector")
        namespaces = frozenset(term.namespaces or (() if chosen is not None else (group.namespace,)))
        key = (term.topologyKey, namespaces, namespace_selector, selector)
        found = self._terms.get(key)
        if found is None:
            found = self._terms[key] = AffinityTerm(*key)
        return found


def normalized_image(name: str) -> str:
    """An image name with its tag, `latest` if it has none."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def read_node(document: Mapping[str, Any], *, path: str = "node") -> objects.Node:
    """Decode a node from plain JSON data."""
    return objects.read(document, objects.Node, path=path)


def _given(status: objects.PodStatus) -> tuple[object, ...]:
    """The allocated resources of a running pod, which count during a resize."""
    parts, init_parts = status.containerStatuses, status.initContainerStatuses
    return parts, init_parts, status.allocatedResources, status.resources, status.conditions


def _is_preempted(status: objects.PodStatus) -> bool:
    for condition in status.conditions or ():
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == "PreemptionByScheduler"
    return False


def _selector(selector: objects.LabelSelector | None, path: str) -> Selector:
    try:
        return selectors.from_object(selector)
    except SelectorError as error:
        raise MalformedObjectError(path, str(error)) from error


def _requests(document: Mapping[str, Any], *, bound: bool) -> tuple[dict[str, int], tuple[int, int]]:
    """The requests of a pod, and its cpu and memory for scoring."""
    if bound:
        requests = resources.pod_requests(document, use_status=True)
        counted = resources.non_zero_requests(document)
    else:
        requests = resources.pod_requests(document)
        counted = resources.pod_requests(document, non_missing=resources.NON_ZERO_DEFAULTS)
    tracked = _tracked(requests.items())
    return tracked, (counted.get(resources.CPU, 0), counted.get(resources.MEMORY, 0))


def _tracked(amounts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Leave out resources that nodes do not account for, and zeros."""
    return {name: amount for name, amount in amounts if amount and (name in _NATIVE or resources.is_scalar(name))}


_NATIVE = frozenset({resources.CPU, resources.MEMORY, resources.EPHEMERAL_STORAGE})
