"""Pod Security admission: the levels that a namespace's labels enforce, audit and warn of, and what is exempt.

Pods that violate the enforced level are refused. Workloads are not: their pods will be; they get the warnings. A
namespace whose enforced level becomes stricter gets warnings about pods that are there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from rota.api import errors, fields, pod_security
from rota.api.fields import FieldError, Path
from rota.api.identifiers import GroupKind, GroupResource
from rota.apiserver.admission.namespace_lifecycle import NAMESPACES
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object, Registry

_PODS: Final = GroupResource("", "pods")
_LABEL: Final = "pod-security.kubernetes.io/"
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]*)")
_LATEST: Final = "latest"
MODES: Final = ("enforce", "audit", "warn")
WRONG_LEVEL: Final = f"must be one of {', '.join(pod_security.LEVELS)}"
WRONG_VERSION: Final = 'must be "latest" or "v1.x"'
_EXEMPT: Final = f"{_LABEL}exempt"
#: Where a workload has the template of its pods.
_TEMPLATES: Final[Mapping[GroupResource, tuple[str, ...]]] = {
    GroupResource("", "podtemplates"): ("template",),
    GroupResource("", "replicationcontrollers"): ("spec", "template"),
    GroupResource("apps", "deployments"): ("spec", "template"),
    GroupResource("apps", "replicasets"): ("spec", "template"),
    GroupResource("apps", "statefulsets"): ("spec", "template"),
    GroupResource("apps", "daemonsets"): ("spec", "template"),
    GroupResource("batch", "jobs"): ("spec", "template"),
    GroupResource("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}
#: How many pods of a namespace are looked at when its level changes.
_MOST_PODS: Final = 3000


class Level(NamedTuple):
    """A level of a version."""

    name: str = "privileged"
    version: str = _LATEST

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"

    @property
    def minor(self) -> int:
        """The minor version, the newest for `latest`."""
        return pod_security.NEWEST if self.version == _LATEST else int(self.version.removeprefix("v1."))

    def violations(self, pod: Mapping[str, Any]) -> list[pod_security.Violation]:
        """What a pod, or a template of one, violates."""
        return pod_security.violations(self.name, self.minor, pod.get("metadata") or {}, pod.get("spec") or {})


class Levels(NamedTuple):
    """What a namespace wants."""

    enforce: Level = Level()
    audit: Level = Level()
    warn: Level = Level()


_PRIVILEGED: Final = Levels()


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What the administrator of the server decides: levels of namespaces without labels, and exemptions."""

    defaults: Levels = _PRIVILEGED
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


NOTHING_CONFIGURED: Final = Configuration()


def levels(labels: Mapping[str, str], defaults: Levels = _PRIVILEGED) -> tuple[Levels, list[FieldError]]:
    """The levels that labels say, and their errors; a wrong level to enforce counts as the strictest."""
    found: dict[str, Level] = {}
    wrong: list[FieldError] = []
    valid: set[str] = set()
    for mode in MODES:
        name, version = getattr(defaults, mode)
        given = labels.get(_LABEL + mode)
        if given is not None:
            valid.add(mode)
            name = given
            if given not in pod_security.LEVELS:
                valid.discard(mode)
                name = "restricted" if mode == "enforce" else "privileged"
                wrong.append(fields.invalid(_path(mode), given, WRONG_LEVEL))
        stated = labels.get(f"{_LABEL}{mode}-version")
        if stated is not None:
            version = stated if is_version(stated) else _LATEST
            if version != stated:
                wrong.append(fields.invalid(_path(f"{mode}-version"), stated, WRONG_VERSION))
        found[mode] = Level(name, version)
    stricter = pod_security.LEVELS.index(found["enforce"].name) > pod_security.LEVELS.index(found["warn"].name)
    if "enforce" in valid and _LABEL + "warn" not in labels and stricter:
        # What is enforced is warned of too, unless a label says otherwise.
        stated = labels.get(f"{_LABEL}warn-version")
        found["warn"] = Level(found["enforce"].name, found["warn"].version if stated else found["enforce"].version)
    return Levels(found["enforce"], found["audit"], found["warn"]), wrong


def is_version(text: str) -> bool:
    """Whether a text names a version of the checks."""
    return text == _LATEST or _VERSION.fullmatch(text) is not None


def _path(name: str) -> Path:
    return Path("metadata").child("labels").key(_LABEL + name)


class PodSecurity:
    """An `Admission` that runs after validation."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({NAMESPACES})

    def __init__(
        self, registry: Registry, namespaces: WatchCache, configuration: Configuration = NOTHING_CONFIGURED
    ) -> None:
        self._registry: Final = registry
        self._namespaces: Final = namespaces
        self._configuration: Final = configuration

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Admit the request, perhaps with warnings; Forbidden for a pod that violates the enforced level."""
        if new is None:
            return
        which = at.resource.group_resource
        if which == NAMESPACES:
            if not at.subresource:
                await self._namespace(at, new, old)
            return
        is_pod = which == _PODS and at.subresource in ("", "ephemeralcontainers", "resize")
        if not is_pod and (at.subresource or which not in _TEMPLATES):
            return
        configuration = self._configuration
        if at.namespace in configuration.namespaces or at.user.name in configuration.usernames:
            at.annotations[_EXEMPT] = "namespace" if at.namespace in configuration.namespaces else "user"
            return
        wanted = await self._wanted(at.namespace)
        if wanted is None or (is_pod and old is not None and not _is_significant(new, old)):
            return
        pod = new
        for name in () if is_pod else _TEMPLATES[which]:
            pod = pod.get(name) or {}
        if (pod.get("spec") or {}).get("runtimeClassName") in configuration.runtime_classes:
            at.annotations[_EXEMPT] = "runtimeClass"
            return
        if is_pod or wanted.audit.name != "privileged" or wanted.warn.name != "privileged":
            _evaluate(at, pod, wanted, enforce=is_pod, name=new["metadata"].get("name") or "")

    async def _wanted(self, namespace: str) -> Levels | None:
        """The levels of a namespace; None if everything is allowed."""
        found = self._namespaces.get("", namespace)
        if found is None:
            stored = await self._registry.find(self._registry.resource(NAMESPACES), "", namespace)
            found = stored.object if stored is not None else {}
        labels = (found.get("metadata") or {}).get("labels") or {}
        wanted = self._configuration.defaults
        if any(name.startswith(_LABEL) for name in labels):
            wanted, _ = levels(labels, wanted)
        return None if all(one.name == "privileged" for one in wanted) else wanted

    async def _namespace(self, at: Attributes, new: Object, old: Object | None) -> None:
        labels, defaults = new["metadata"].get("labels") or {}, self._configuration.defaults
        wanted, wrong = levels(labels, defaults)
        before, wrong_before = levels(((old or {}).get("metadata") or {}).get("labels") or {}, defaults)
        name = new["metadata"].get("name") or ""
        if wrong and (old is None or wrong != wrong_before):
            raise errors.invalid(GroupKind("", "Namespace"), name, wrong)
        enforce, exempt = wanted.enforce, name in self._configuration.namespaces
        if old is None:
            if exempt:
                _warn_of_exemption(at, name, wanted, labels, defaults)
            return
        if enforce == before.enforce or enforce.name == "privileged":
            return
        order = pod_security.LEVELS.index
        if enforce.version == before.enforce.version and order(enforce.name) <= order(before.enforce.name):
            return
        if exempt:
            _warn_of_exemption(at, name, wanted, labels, defaults)
            return
        stored = await self._registry.list(self._registry.resource(_PODS), name)
        pods = [one.object for one in stored]
        exempted = self._configuration.runtime_classes
        for text in _of_existing(name, enforce, pods, exempted):
            at.warn(text)


def _warn_of_exemption(at: Attributes, name: str, wanted: Levels, labels: Mapping[str, str], defaults: Levels) -> None:
    """Labels of an exempt namespace that have no effect."""
    if wanted == defaults or all(one.name == "privileged" for one in wanted):
        return
    shown = [
        f"{mode}={level}"
        for mode, level in zip(MODES, wanted, strict=True)
        if level.name != "privileged" and (_LABEL + mode in labels or f"{_LABEL}{mode}-version" in labels)
    ]
    at.warn(f'namespace "{name}" is exempt from Pod Security, and the policy ({", ".join(shown)}) will be ignored')


def _evaluate(at: Attributes, pod: Mapping[str, Any], wanted: Levels, *, enforce: bool, name: str) -> None:
    if enforce:
        at.annotations["pod-security.kubernetes.io/enforce-policy"] = str(wanted.enforce)
    found = wanted.audit.violations(pod)
    if found:
        text = f'would violate PodSecurity "{wanted.audit}": {pod_security.shown(found)}'
        at.annotations["pod-security.kubernetes.io/audit-violations"] = text
    found = wanted.enforce.violations(pod) if enforce else []
    if found:
        why = f'violates PodSecurity "{wanted.enforce}": {pod_security.shown(found)}'
        raise errors.forbidden(at.resource.group_resource, name, why)
    found = wanted.warn.violations(pod)
    if found:
        at.warn(f'would violate PodSecurity "{wanted.warn}": {pod_security.shown(found)}')


def _is_significant(new: Object, old: Object) -> bool:
    """Whether an update may make a pod violate a level: containers or images change."""
    for kind in ("containers", "initContainers"):
        ones, others = new["spec"].get(kind) or [], old["spec"].get(kind) or []
        if len(ones) != len(others) or any(
            one.get("image") != other.get("image") for one, other in zip(ones, others, strict=True)
        ):
            return True
    earlier = {one["name"]: one for one in old["spec"].get("ephemeralContainers") or ()}
    return any(
        one["name"] not in earlier or one.get("image") != earlier[one["name"]].get("image")
        for one in new["spec"].get("ephemeralContainers") or ()
    )


def _of_existing(namespace: str, enforce: Level, pods: Sequence[Object], exempted: frozenset[str]) -> list[str]:
    """Warnings about the pods of a namespace, those of one controller counted together."""
    grouped: dict[str, list[str]] = {}
    for pod in pods[:_MOST_PODS]:
        if pod["spec"].get("runtimeClassName") in exempted:
            continue
        found = enforce.violations(pod)
        if found:
            reasons = ", ".join(reason for reason, _ in found)
            grouped.setdefault(reasons, []).append(pod["metadata"]["name"])
    texts = []
    if len(pods) > _MOST_PODS:
        texts.append(
            f"new PodSecurity enforce level only checked against the first {_MOST_PODS} of {len(pods)} existing pods"
        )
    if grouped:
        texts.append(f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{enforce}"')
    each = []
    for reasons, names in grouped.items():
        others = len(names) - 1
        more = f" (and {others} other {'pod' if others == 1 else 'pods'})" if others else ""
        each.append(f"{min(names)}{more}: {reasons}")
    return texts + sorted(each)
