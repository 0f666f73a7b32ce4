"""Resolves a pod's priority from its class, or from the cluster's default class; there is at most one default."""

from typing import ClassVar, Final

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object, Registry

_PODS: Final = GroupResource("", "pods")
CLASSES: Final = GroupResource("scheduling.k8s.io", "priorityclasses")


class Priority:
    """Resolves `priorityClassName`."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({CLASSES})

    def __init__(self, registry: Registry, copy: WatchCache) -> None:
        self._registry: Final = registry
        self._copy: Final = copy
        #: Classes that are marked as the default, by name: usually at most one; needed for pods without a class.
        self._defaults: Final[dict[str, Object]] = {}
        copy.subscribe(self._note)

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Set a new pod's priority; Forbidden if there is no such class, or if the pod has another number."""
        if new is None or at.subresource:
            return
        if at.resource.group_resource == CLASSES:
            await self._check_default(new)
        elif at.resource.group_resource == _PODS:
            if old is None:
                await self._resolve(new)
            else:
                for name in ("priority", "preemptionPolicy"):
                    if new["spec"].get(name) is None and old["spec"].get(name) is not None:
                        new["spec"][name] = old["spec"][name]

    async def _resolve(self, pod: Object) -> None:
        spec, name = pod["spec"], pod["metadata"].get("name", "")
        wanted = spec.get("priorityClassName")
        if wanted:
            chosen = self._copy.get("", wanted) or await self._stored(wanted)
            if chosen is None:
                raise errors.forbidden(_PODS, name, f"no PriorityClass with name {wanted} was found")
        else:
            chosen = await self._default()
            if chosen is not None:
                spec["priorityClassName"] = chosen["metadata"]["name"]
        priority = chosen.get("value", 0) if chosen is not None else 0
        policy = (chosen or {}).get("preemptionPolicy") or "PreemptLowerPriority"
        for field, text, value in (
            ("priority", "the integer value of priority", priority),
            ("preemptionPolicy", "the string value of PreemptionPolicy", policy),
        ):
            given = spec.get(field)
            if given is not None and given != value:
                why = (
                    f"{text} ({given}) must not be provided in pod spec; "
                    f"priority admission controller computed {value} from the given PriorityClass name"
                )
                raise errors.forbidden(_PODS, name, why)
            spec[field] = value

    async def _stored(self, name: str) -> Object | None:
        found = await self._registry.find(self._registry.resource(CLASSES), "", name)
        return None if found is None else found.object

    async def _default(self, *, newest: bool = False) -> Object | None:
        """The default class, with `newest` read from the store; of two that were created at once, the lower one."""
        if self._copy.following and not newest:
            defaults = list(self._defaults.values())
        else:
            classes = await self._registry.list(self._registry.resource(CLASSES))
            defaults = [one.object for one in classes if one.object.get("globalDefault")]
        return min(defaults, key=lambda one: int(one.get("value", 0)), default=None)

    def _note(self, old: Object | None, new: Object | None) -> None:
        if old is not None:
            self._defaults.pop(old["metadata"]["name"], None)
        if new is not None and new.get("globalDefault"):
            self._defaults[new["metadata"]["name"]] = new

    async def _check_default(self, new: Object) -> None:
        if not new.get("globalDefault"):
            return
        present, name = await self._default(newest=True), new["metadata"].get("name", "")
        if present is not None and present["metadata"]["name"] != name:
            other = present["metadata"]["name"]
            why = f"PriorityClass {other} is already marked as default. Only one default can exist"
            raise errors.forbidden(CLASSES, name, why)
