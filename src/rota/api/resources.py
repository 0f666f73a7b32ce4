"""Requests of pods, allocatable resources of nodes, and whether a pod fits.

The one piece of fit code (`lacking`, `conflicting_ports`): the scheduler decides with it, the API server checks
bindings with it and workers admit pods with it, because where two copies disagree, a pod is placed and refused for
ever. Formulas of `k8s.io/component-helpers/resource` and of kube-scheduler's NodeResourcesFit and NodePorts (1.37).

Amounts are integers: CPU in thousandths, everything else in whole units, as `Amounts`. They are added exactly and
rounded up once, at the end. Objects are plain wire objects.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from rota.api import gangs, quantities

#: Resource name to amount; CPU in thousandths.
Amounts: TypeAlias = Mapping[str, int]
Object: TypeAlias = Mapping[str, Any]

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

#: What scoring assumes for a container that says nothing: 100m of CPU and 200Mi of memory.
NON_ZERO_DEFAULTS: Final[Amounts] = {CPU: 100, MEMORY: 200 * 1024 * 1024}

TOO_MANY_PODS: Final = "Too many pods"

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - a wildcard to compare with, not an address to bind
_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_NOTHING: Final[Amounts] = {}
_BINARY: Final = frozenset({MEMORY, EPHEMERAL_STORAGE})
_NANOS_PER_MILLI: Final = 10**6
_NANOS_PER_UNIT: Final = 10**9

#: Exact amounts while they are being added: nano units.
_Exact: TypeAlias = dict[str, int]
_Picker: TypeAlias = Callable[[Object], Object | None]


def pod_requests(
    pod: Object,
    *,
    use_status: bool = False,
    non_missing: Amounts | None = None,
    exclude_overhead: bool = False,
) -> dict[str, int]:
    """What a pod needs at most at any one time, from its start to its end.

    Application containers run together with the restartable init containers; any other init container runs alone,
    beside the restartable ones before it. Requests of the pod as a whole replace the sum; overhead comes on top.

    `use_status` takes in what a running pod was given while a resize is under way (for pods on nodes).
    `non_missing` is assumed for containers that have no request of that name (for scoring).
    """
    assumed = {name: _to_nanos(name, amount) for name, amount in (non_missing or {}).items()}
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    total = _with_status(spec, status, assumed) if use_status else _aggregate(spec, _spec_requests, assumed)
    _replace_by_pod_level(total, spec, status if use_status else {})
    if not exclude_overhead:
        _add(total, _exact(spec.get("overhead")))
    return {name: _from_nanos(name, nanos) for name, nanos in total.items()}


def non_zero_requests(pod: Object) -> dict[str, int]:
    """The requests of a pod on a node as scoring counts them: something even where the pod asks for nothing."""
    requests = pod_requests(pod, use_status=True)
    missing = dict(NON_ZERO_DEFAULTS)
    if has_pod_level_requests(pod):
        missing = {name: amount for name, amount in missing.items() if name not in requests}
    return pod_requests(pod, use_status=True, non_missing=missing) if missing else requests


def has_pod_level_requests(pod: Object) -> bool:
    """Whether requests are set for the pod as a whole."""
    requests = ((pod.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return any(map(_is_pod_level, requests))


def node_allocatable(node: Object) -> dict[str, int]:
    """What a node can give to pods, their number (`pods`) included; capacity where nothing else is said."""
    status = node.get("status") or {}
    declared = status.get("allocatable")
    if declared is None:
        declared = status.get("capacity") or {}
    return {name: amount(name, quantity) for name, quantity in declared.items()}


def amount(name: str, quantity: str | float | None) -> int:
    """A quantity of a resource as an integer: CPU in thousandths, everything else in whole units."""
    return quantities.milli(quantity) if name == CPU else quantities.value(quantity)


class Insufficient(NamedTuple):
    """A resource of which a node has too little."""

    resource: str
    requested: int
    free: int

    @property
    def reason(self) -> str:
        """Upstream's words; they are constants, so that the same reason on many nodes adds up."""
        return TOO_MANY_PODS if self.resource == PODS else f"Insufficient {self.resource}"


def lacking(
    request: Iterable[tuple[str, int]], allocatable: Amounts, requested: Amounts, *, pods_left: int
) -> list[Insufficient]:
    """What a node is missing for one more pod; an empty list means that the pod fits.

    `requested` is what the pods there request together, and `pods_left` how many more pods the node takes. What a node
    does not declare, it does not have. Every name of `request` is checked.
    """
    missing = [] if pods_left >= 1 else [Insufficient(PODS, 1, pods_left)]
    for name, wanted in request:
        free = allocatable.get(name, 0) - requested.get(name, 0)
        if wanted > free and wanted > 0:
            missing.append(Insufficient(name, wanted, free))
    return missing


def fits(node_free: Amounts, request: Amounts) -> list[Insufficient]:
    """The same by what is free, with the number of pods still allowed as `pods`.

    Names that are not schedulable resources are not checked.
    """
    scalars = sorted(name for name in request if is_scalar(name))
    checked = [(name, request.get(name, 0)) for name in (*_NATIVE, *scalars)]
    return lacking(checked, node_free, _NOTHING, pods_left=node_free.get(PODS, 0))


def subtract(left: Amounts, right: Amounts) -> dict[str, int]:
    """What remains of `left`; a name that is only in `right` becomes negative, so that nothing is lost."""
    remaining = dict(left)
    for name, taken in right.items():
        remaining[name] = remaining.get(name, 0) - taken
    return remaining


@functools.lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Whether a resource is counted besides CPU, memory, ephemeral storage and pods."""
    if name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    # with a domain it is an extended resource, or one of Kubernetes' own; `requests.` is for quotas only
    return "/" in name and not name.startswith("requests.")


class HostPort(NamedTuple):
    """A port of the node that a container takes."""

    address: str
    protocol: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """Whether both cannot be had at once: same protocol and port, and addresses that overlap."""
        return (
            self.port == other.port
            and self.protocol == other.protocol
            and (self.address == other.address or _ANY_ADDRESS in {self.address, other.address})
        )


def host_ports(pod: Object) -> tuple[HostPort, ...]:
    """The node's ports that a pod takes while it runs."""
    spec = pod.get("spec") or {}
    lasting = [one for one in spec.get("initContainers") or () if _restartable(one)]
    labels = (pod.get("metadata") or {}).get("labels") or {}
    gang = gangs.taken_port(labels) if gangs.PORT_LABEL in labels else None
    found = () if gang is None else (HostPort(_ANY_ADDRESS, "TCP", gang),)
    return found + tuple(
        HostPort(port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
        for container in (*(spec.get("containers") or ()), *lasting)
        for port in container.get("ports") or ()
        if (port.get("hostPort") or 0) > 0
    )


def conflicting_ports(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> list[HostPort]:
    """Those of the wanted ports that are taken; an empty list means that all can be had."""
    taken: dict[tuple[str, int], list[HostPort]] = {}
    for one in used:
        taken.setdefault((one.protocol, one.port), []).append(one)
    return [one for one in wanted if any(one.conflicts(other) for other in taken.get((one.protocol, one.port), ()))]


def is_resize_infeasible(pod: Object) -> bool:
    """Whether the node has refused the pod's resize for good, so that the new size does not count."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _aggregate(spec: Object, requests_of: _Picker, assumed: Mapping[str, int]) -> _Exact:
    """The peak of all containers, with requests picked by `requests_of`."""

    def needs(container: Object) -> _Exact:
        found = _exact(requests_of(container))
        for name, nanos in assumed.items():
            found.setdefault(name, nanos)
        return found

    total: _Exact = {}
    for container in spec.get("containers") or ():
        _add(total, needs(container))
    lasting: _Exact = {}
    peak: _Exact = {}
    for container in spec.get("initContainers") or ():
        wanted = needs(container)
        if _restartable(container):
            _add(total, wanted)
            _add(lasting, wanted)
            _raise(peak, lasting)
        else:
            _add(wanted, lasting)
            _raise(peak, wanted)
    _raise(total, peak)
    return total


def _with_status(spec: Object, status: Object, assumed: Mapping[str, int]) -> _Exact:
    """The larger of what is asked for, what was allotted and what is in force, resource by resource."""
    infeasible = is_resize_infeasible({"status": status})
    statuses = {one.get("name"): one for one in status.get("initContainerStatuses") or ()}
    statuses |= {one.get("name"): one for one in status.get("containerStatuses") or ()}

    def allotted(container: Object) -> Object | None:
        given: Object | None = statuses.get(container.get("name"), {}).get("allocatedResources")
        return given if given is not None else None if infeasible else _spec_requests(container)

    def in_force(container: Object) -> Object | None:
        given: Object | None = (statuses.get(container.get("name"), {}).get("resources") or {}).get("requests")
        return given if given is not None else allotted(container)

    pod_allotted, pod_in_force = status.get("allocatedResources"), (status.get("resources") or {}).get("requests")
    if pod_allotted is not None and pod_in_force is not None:
        total = _exact(pod_allotted)
        _raise(total, _exact(pod_in_force))
    else:
        total = _aggregate(spec, allotted, assumed)
        _raise(total, _aggregate(spec, in_force, assumed))
    if not infeasible:
        _raise(total, _aggregate(spec, _spec_requests, assumed))
    return total


def _replace_by_pod_level(total: _Exact, spec: Object, status: Object) -> None:
    requests = (spec.get("resources") or {}).get("requests") or {}
    if not any(map(_is_pod_level, requests)):
        return
    effective = _exact(requests)
    reported = [status.get("allocatedResources"), (status.get("resources") or {}).get("requests")]
    if any(one is not None for one in reported):
        if is_resize_infeasible({"status": status}):
            effective = {}
        overhead = _exact(spec.get("overhead"))
        for one in reported:
            # the status counts the overhead in, which is added again at the end
            _raise(effective, {name: max(nanos - overhead.get(name, 0), 0) for name, nanos in _exact(one).items()})
    total.update({name: nanos for name, nanos in effective.items() if _is_pod_level(name)})


def _is_pod_level(name: str) -> bool:
    return name in {CPU, MEMORY} or name.startswith("hugepages-")


def _spec_requests(container: Object) -> Object | None:
    return (container.get("resources") or {}).get("requests")


def _restartable(container: Object) -> bool:
    return container.get("restartPolicy") == "Always"


def _add(total: _Exact, more: Mapping[str, int]) -> None:
    for name, nanos in more.items():
        total[name] = total.get(name, 0) + nanos


def _raise(total: _Exact, floor: Mapping[str, int]) -> None:
    for name, nanos in floor.items():
        if name not in total or nanos > total[name]:
            total[name] = nanos


def _exact(requests: Object | None) -> _Exact:
    return {name: _nanos(quantity) for name, quantity in requests.items()} if requests else {}


@functools.lru_cache(maxsize=8192)
def _nanos(quantity: str | float | None) -> int:
    return quantities.from_wire(quantity).nanos


def _to_nanos(name: str, wanted: int) -> int:
    return wanted * (_NANOS_PER_MILLI if name == CPU else _NANOS_PER_UNIT)


def _from_nanos(name: str, nanos: int) -> int:
    divisor = _NANOS_PER_MILLI if name == CPU else _NANOS_PER_UNIT
    rounded_up = -(-nanos // divisor)  # requests are never negative
    return min(rounded_up, quantities.MAX_INT64)


def shown(name: str, amount: int) -> str:
    """An amount of a resource as people write it."""
    if name == CPU:
        return str(quantities.from_milli(amount))
    if name in _BINARY or name.startswith("hugepages-"):
        return str(quantities.from_value(amount, quantities.Format.BINARY_SI))
    return str(quantities.from_value(amount))
