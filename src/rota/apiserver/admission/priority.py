"""A pod's priority is that of its class, or of the cluster's default class; there is at most one default."""

from typing import Any, Final

import msgspec

from rota.api import errors, keys
from rota.api.identifiers import GroupResource
from rota.apiserver.contract import Attributes, Object, Registry

_PODS: Final = GroupResource("", "pods")
_CLASSES: Final = GroupResource("scheduling.k8s.io", "priorityclasses")
_MARK: Final = b'"globalDefault":true'
_decoder: Final = msgspec.json.Decoder(dict[str, Any])


class Priority:
    """Resolves `priorityClassName`."""

    def __init__(self, registry: Registry) -> None:
        self._registry: Final = registry

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Set a new pod's priority; Forbidden if there is no such class, or if a pod brings another number."""
        if new is None or at.subresource:
            return
        if at.resource.group_resource == _CLASSES:
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
            found = await self._registry.find(self._registry.resource(_CLASSES), "", wanted)
            if found is None:
                raise errors.forbidden(_PODS, name, f"no PriorityClass with name {wanted} was found")
            chosen: Object | None = found.object
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

    async def _default(self) -> Object | None:
        """The default class; if two came to be at once, the lower one."""
        page = await self._registry.store.list(keys.prefix(self._registry.resource(_CLASSES)))
        # every pod without a class asks this, and there are hardly ever defaults: their stored bytes give them away
        marked = [_decoder.decode(entry.value) for entry in page.entries if _MARK in entry.value]
        defaults = [one for one in marked if one.get("globalDefault")]
        return min(defaults, key=lambda one: int(one.get("value", 0)), default=None)

    async def _check_default(self, new: Object) -> None:
        if not new.get("globalDefault"):
            return
        present, name = await self._default(), new["metadata"].get("name", "")
        if present is not None and present["metadata"]["name"] != name:
            other = present["metadata"]["name"]
            why = f"PriorityClass {other} is already marked as default. Only one default can exist"
            raise errors.forbidden(_CLASSES, name, why)
