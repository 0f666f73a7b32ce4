"""Warnings about security contexts that the process runtime does not apply.

A pod without `runtimeClassName: container` runs as a process, which has no root file system, capabilities or profiles
of its own. A pod that asks for them is admitted with a warning for each field, which kubectl and `rota` print; so are
workloads whose templates ask. Workers allow or refuse `runAsUser`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Object

_PROCESS: Final = frozenset({None, "", "process"})
#: Where an object has its pod spec.
_POD_SPECS: Final[Mapping[GroupResource, tuple[str, ...]]] = {
    GroupResource("", "pods"): ("spec",),
    GroupResource("apps", "deployments"): ("spec", "template", "spec"),
    GroupResource("apps", "replicasets"): ("spec", "template", "spec"),
    GroupResource("apps", "statefulsets"): ("spec", "template", "spec"),
    GroupResource("apps", "daemonsets"): ("spec", "template", "spec"),
    GroupResource("batch", "jobs"): ("spec", "template", "spec"),
    GroupResource("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template", "spec"),
}
#: Fields that apply to containers only, with the values that ask for nothing.
_FIELDS: Final[Mapping[str, tuple[Any, ...]]] = {
    "privileged": (None, False),
    "readOnlyRootFilesystem": (None, False),
    "allowPrivilegeEscalation": (None, False),
    "seccompProfile": (None,),
    "appArmorProfile": (None,),
    "seLinuxOptions": (None,),
    "procMount": (None, "Default"),
    "sysctls": (None, []),
}
#: The end of each of these warnings.
REMEDY: Final = "a process of the machine does not have it; runtimeClassName: container does"


class ProcessSecurity:
    """An `Admission` that warns of security contexts that processes do not get."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Admit everything."""
        path = _POD_SPECS.get(at.resource.group_resource)
        if path is None or new is None or at.subresource:
            return
        spec = _at(new, path)
        if old is None or _at(old, path) != spec:
            for text in warnings(spec, ".".join(path)):
                at.warn(text)


def warnings(spec: Mapping[str, Any], path: str) -> Iterator[str]:
    """What a pod asks for that a process does not get."""
    if spec.get("runtimeClassName") not in _PROCESS:
        return
    yield from _of(spec.get("securityContext") or {}, f"{path}.securityContext")
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            yield from _of(container.get("securityContext") or {}, f"{path}.{kind}[{number}].securityContext")


def _of(context: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, nothing in _FIELDS.items():
        if context.get(name) not in nothing:
            yield f"{path}.{name}: {REMEDY}"
    # A process that is not root does not have the dropped capabilities anyway.
    if (context.get("capabilities") or {}).get("add"):
        yield f"{path}.capabilities.add: {REMEDY}"


def _at(obj: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    found: Any = obj
    for name in path:
        found = (found or {}).get(name)
    return found or {}
