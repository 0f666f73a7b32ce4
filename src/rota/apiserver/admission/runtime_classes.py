"""Applies a pod's runtime class: the overhead beyond its containers, and the nodes that it may run on."""

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from rota.api import errors, quantities
from rota.api.identifiers import GroupResource
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object, Registry

_PODS: Final = GroupResource("", "pods")
RUNTIMES: Final = GroupResource("node.k8s.io", "runtimeclasses")
_NO_EXECUTE: Final = "NoExecute"


class RuntimeClasses:
    """Resolves `runtimeClassName`."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({RUNTIMES})

    def __init__(self, registry: Registry, copy: WatchCache) -> None:
        self._registry: Final = registry
        self._copy: Final = copy

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Apply the class to a new pod; Forbidden if there is no such class, or if the two conflict."""
        if new is None or old is not None or at.subresource or at.resource.group_resource != _PODS:
            return
        spec, name = new["spec"], new["metadata"].get("name", "")
        wanted = spec.get("runtimeClassName")
        if wanted is None:
            if spec.get("overhead") is not None:
                raise _refused(
                    name, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                )
            return
        chosen = self._copy.get("", wanted) or await self._stored(wanted)
        if chosen is None:
            raise _refused(name, f'pod rejected: RuntimeClass "{wanted}" not found')
        _add_overhead(name, spec, (chosen.get("overhead") or {}).get("podFixed"))
        _add_scheduling(name, spec, chosen.get("scheduling") or {})

    async def _stored(self, name: str) -> Object | None:
        found = await self._registry.find(self._registry.resource(RUNTIMES), "", name)
        return None if found is None else found.object


def _add_overhead(name: str, spec: Object, fixed: Object | None) -> None:
    given = spec.get("overhead")
    if fixed is None:
        if given is not None:
            raise _refused(name, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    elif given is not None and not _same_amounts(given, fixed):
        raise _refused(name, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    else:
        spec["overhead"] = dict(fixed)


def _same_amounts(one: Object, other: Object) -> bool:
    return one.keys() == other.keys() and all(
        quantities.from_wire(one[key]).nanos == quantities.from_wire(other[key]).nanos for key in one
    )


def _add_scheduling(name: str, spec: Object, scheduling: Object) -> None:
    selector: dict[str, Any] = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.setdefault(key, value) != value:
            ours = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise _refused(name, f"conflict: {ours}; pod.spec.nodeSelector[{key}] = {selector[key]}")
    if selector:
        spec["nodeSelector"] = selector
    if scheduling.get("tolerations"):
        spec["tolerations"] = merged([*(spec.get("tolerations") or ()), *scheduling["tolerations"]])


def merged(tolerations: Iterable[Object]) -> list[Object]:
    """The tolerations without those that others make redundant; of equal ones the first."""
    given, kept = list(tolerations), list[Object]()
    for place, one in enumerate(given):
        later = (other for other in given[place + 1 :] if other != one)
        if not any(covers(other, one) for other in (*kept, *later)):
            kept.append(one)
    return kept


def covers(wide: Object, narrow: Object) -> bool:
    """Whether everything that one toleration tolerates is tolerated by another."""
    if wide == narrow:
        return True
    exists, key, effect = wide.get("operator") == "Exists", wide.get("key", ""), wide.get("effect", "")
    if narrow.get("key", "") != key and (key or not exists):
        return False
    if effect not in {"", narrow.get("effect", "")}:
        return False
    if effect == _NO_EXECUTE and wide.get("tolerationSeconds") is not None:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    return exists or (narrow.get("operator") == "Equal" and narrow.get("value", "") == wide.get("value", ""))


def _refused(name: str, why: str) -> errors.ApiError:
    return errors.forbidden(_PODS, name, why)
