"""The container config: a container's launch from its pod's spec and the objects that the spec refers to.

Variables come from values, fields of the pod, ConfigMaps and Secrets; `$(NAME)` is expanded as upstream does. A missing
object that is not optional prevents the start, with a message that names it.
"""

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from rota.api import meta, quantities, reclaimed
from rota.api.pipelines import object_names
from rota.client.verbs import Object
from rota.worker import addresses, expansion, identities
from rota.worker.identities import Account
from rota.worker.references import References
from rota.worker.runtimes.runtime_interface import CONTAINER, PROCESS, Launch, LaunchError, Limits, Mount, Security

_MISSING: Final = "CreateContainerConfigError"
#: Variables that every process inherits from the worker, besides `ROTA_PYTHON`.
_INHERITED: Final = ("PATH", "LANG", "TZ", "ROTA_ENVIRONMENTS")


#: A container's mounts, given its variables.
Mounts: TypeAlias = Callable[[Mapping[str, str]], Sequence[Mount]]


class Settings(Protocol):
    """The settings of the machine."""

    @property
    def node(self) -> str:
        """The node's name."""
        ...

    @property
    def address(self) -> str:
        """The node's address, which pods share."""
        ...

    @property
    def allocatable(self) -> Mapping[str, int]:
        """The node's allocatable resources, for containers without limits."""
        ...

    @property
    def pids(self) -> int | None:
        """The limit of processes per container."""
        ...

    @property
    def runtime(self) -> str:
        """The runtime of pods that do not name one."""
        ...

    @property
    def run_as(self) -> Account | None:
        """The account of processes whose pods set no user; None for the worker's own user."""
        ...

    @property
    def allow_root(self) -> bool:
        """Whether pods may run as any user of the machine, root included."""
        ...

    @property
    def api_server(self) -> tuple[str, str]:
        """The API's host and port for software in pods."""
        ...


async def launch(
    pod: Object,
    name: str,
    run: int,
    *,
    references: References,
    settings: Settings,
    mounts: Mounts,
    home: str,
    links: Mapping[str, str] | None = None,
) -> Launch:
    """The launch of one run of a container; LaunchError if a referenced object is missing.

    `mounts` returns the mounts of its volumes, which may depend on its variables. `links` are the variables of
    services.
    """
    spec = pod["spec"]
    container = _container(spec, name)
    environment = await variables(pod, container, references=references, settings=settings, links=links)
    runtime = chosen(spec, settings)
    security = {**(spec.get("securityContext") or {}), **(container.get("securityContext") or {})}
    user, group = security.get("runAsUser"), security.get("runAsGroup")
    machine: dict[str, str] = {}
    if runtime == PROCESS:
        machine = {**_inherited(), "HOME": home}
        user, group = _process_user(pod, container, user, group, settings)
        if user is not None and settings.run_as is not None and user == settings.run_as.uid:
            machine |= {"USER": settings.run_as.name, "LOGNAME": settings.run_as.name}
    if security.get("runAsNonRoot") and (user == 0 or (user is None and runtime == PROCESS and os.geteuid() == 0)):
        raise LaunchError(_MISSING, "container has runAsNonRoot and image will run as root")
    return Launch(
        uid=meta.uid(pod),
        namespace=meta.namespace(pod),
        pod=meta.name(pod),
        container=name,
        run=run,
        image=container.get("image") or "",
        command=expansion.expand_all(container.get("command") or (), environment),
        args=expansion.expand_all(container.get("args") or (), environment),
        env={**machine, "HOSTNAME": meta.name(pod), **environment},
        working_dir=container.get("workingDir") or "",
        user=user,
        group=group,
        groups=_groups(spec),
        limits=_limits(container, settings),
        mounts=mounts(environment),
        tty=bool(container.get("tty")),
        stdin=bool(container.get("stdin")),
        stdin_once=bool(container.get("stdinOnce")),
        runtime=runtime,
        pull_policy=container.get("imagePullPolicy") or "IfNotPresent",
        security=_security(security),
        host_pid=bool(spec.get("hostPID")),
        host_ipc=bool(spec.get("hostIPC")),
        host_access=_host_access(spec, container),
        no_new_privileges=runtime == PROCESS and _gains_nothing(security, user, settings),
    )


def _process_user(
    pod: Object, container: Mapping[str, Any], user: int | None, group: int | None, settings: Settings
) -> tuple[int | None, int | None]:
    """The user of a process; LaunchError if its pod may not run as that user."""
    if os.geteuid() == 0 and not settings.allow_root and (why := identities.refusal(pod, container, settings.run_as)):
        raise LaunchError(_MISSING, why)
    account = settings.run_as
    if user is None and account is not None:
        return account.uid, account.gid if group is None else group
    return user, user if group is None else group


def _gains_nothing(security: Mapping[str, Any], user: int | None, settings: Settings) -> bool:
    """Whether setuid programs run without their privileges: for every user but root if the worker is root."""
    if security.get("allowPrivilegeEscalation") is False:
        return True
    return bool(user) and settings.run_as is not None


def _host_access(spec: Mapping[str, Any], container: Mapping[str, Any]) -> str:
    """The field of a spec by which a container can access the host; empty if none."""
    mounted = {one["name"] for one in container.get("volumeMounts") or ()}
    for volume in spec.get("volumes") or ():
        path = (volume.get("hostPath") or {}).get("path")
        if path and volume["name"] in mounted and not object_names.workspace_of(path):
            return f'hostPath volume "{volume["name"]}"'
    return next((name for name in ("hostPID", "hostIPC") if spec.get(name)), "")


def chosen(spec: Mapping[str, Any], settings: Settings) -> str:
    """The runtime of a pod: the one that its runtime class names, else the node's; LaunchError for any other."""
    named = spec.get("runtimeClassName")
    if not named:
        return settings.runtime
    if named not in {PROCESS, CONTAINER}:
        raise LaunchError(
            _MISSING, f'this node has no runtime "{named}": runtimeClassName may be "{PROCESS}" or "{CONTAINER}"'
        )
    if named == CONTAINER and spec.get("shareProcessNamespace"):
        raise LaunchError(_MISSING, "shareProcessNamespace: containers of a pod do not see each other's processes here")
    return str(named)


def _security(wanted: Mapping[str, Any]) -> Security:
    capabilities = wanted.get("capabilities") or {}
    return Security(
        privileged=bool(wanted.get("privileged")),
        read_only_root=bool(wanted.get("readOnlyRootFilesystem")),
        may_gain=wanted.get("allowPrivilegeEscalation") is not False,
        not_root=bool(wanted.get("runAsNonRoot")),
        add=tuple(capabilities.get("add") or ()),
        drop=tuple(capabilities.get("drop") or ()),
    )


async def variables(
    pod: Object,
    container: Mapping[str, Any],
    *,
    references: References,
    settings: Settings,
    links: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The environment of a container: its spec's variables, services, and the API's address."""
    host, port = settings.api_server
    found = dict(links or {})
    found |= {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "KUBERNETES_SERVICE_PORT_HTTPS": port}
    namespace = meta.namespace(pod)
    for source in container.get("envFrom") or ():
        found |= await _whole(source, namespace, references)
    for one in container.get("env") or ():
        name, origin = one["name"], one.get("valueFrom")
        if origin:
            value = await _from(origin, pod, container, references=references, settings=settings)
            if value is not None:
                found[name] = value
        else:
            found[name] = expansion.expand(one.get("value") or "", found)
    return found


async def _whole(source: Mapping[str, Any], namespace: str, references: References) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    for kind, key in (("configmap", "configMapRef"), ("secret", "secretRef")):
        if wanted := source.get(key):
            name = wanted.get("name", "")
            values = await _texts(kind, namespace, name, references)
            if values is None and not wanted.get("optional"):
                raise LaunchError(_MISSING, f'{kind} "{name}" not found')
            return {f"{prefix}{one}": value for one, value in (values or {}).items()}
    return {}


async def _from(
    origin: Mapping[str, Any],
    pod: Object,
    container: Mapping[str, Any],
    *,
    references: References,
    settings: Settings,
) -> str | None:
    namespace = meta.namespace(pod)
    if wanted := origin.get("fieldRef"):
        return field(pod, wanted.get("fieldPath", ""), settings)
    if wanted := origin.get("resourceFieldRef"):
        return resource_field(pod, wanted, container, settings)
    for kind, key in (("configmap", "configMapKeyRef"), ("secret", "secretKeyRef")):
        if wanted := origin.get(key):
            found = await _texts(kind, namespace, wanted.get("name", ""), references)
            return _one(kind, namespace, wanted, found)
    return None


def _one(kind: str, namespace: str, wanted: Mapping[str, Any], values: Mapping[str, str] | None) -> str | None:
    name, key = wanted.get("name", ""), wanted.get("key", "")
    if values is None:
        if wanted.get("optional"):
            return None
        raise LaunchError(_MISSING, f'{kind} "{name}" not found')
    if key not in values:
        if wanted.get("optional"):
            return None
        shown = "ConfigMap" if kind == "configmap" else "Secret"
        raise LaunchError(_MISSING, f"couldn't find key {key} in {shown} {namespace}/{name}")
    return values[key]


async def _texts(kind: str, namespace: str, name: str, references: References) -> Mapping[str, str] | None:
    """The values of a ConfigMap or a Secret for variables."""
    if kind == "configmap":
        found = await references.config_map(namespace, name)
        return None if found is None else found.texts
    values = await references.secret(namespace, name)
    if values is None:
        return None
    return {key: value.decode("utf-8", "surrogateescape") for key, value in values.items()}


def field(pod: Object, path: str, settings: Settings) -> str:
    """A field of the pod by the downward API; LaunchError for a field that it does not support."""
    metadata, spec = meta.metadata(pod), pod.get("spec") or {}
    for prefix, labels in (("metadata.labels[", meta.labels(pod)), ("metadata.annotations[", meta.annotations(pod))):
        if path.startswith(prefix):
            return labels.get(path[len(prefix) : -1].strip("'\""), "")
    known: dict[str, str] = {
        "metadata.name": metadata.get("name", ""),
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata.get("uid", ""),
        "metadata.labels": _listed(meta.labels(pod)),
        "metadata.annotations": _listed(meta.annotations(pod)),
        "spec.nodeName": spec.get("nodeName") or settings.node,
        "spec.serviceAccountName": spec.get("serviceAccountName") or "",
        "status.hostIP": settings.address,
        "status.hostIPs": settings.address,
        "status.podIP": addresses.of(pod, settings.address),
        "status.podIPs": addresses.of(pod, settings.address),
    }
    if path not in known:
        raise LaunchError(_MISSING, f"unsupported field path: {path}")
    return known[path]


def resource_field(
    pod: Object, wanted: Mapping[str, Any], container: Mapping[str, Any] | None, settings: Settings
) -> str:
    """A container's request or limit of a resource, in units of a divisor."""
    name = wanted.get("containerName")
    if name:
        container = _container(pod["spec"], name)
    side, _, resource = wanted.get("resource", "").partition(".")
    amounts = ((container or {}).get("resources") or {}).get(side) or {}
    divisor = quantities.from_wire(wanted.get("divisor") or 1).nanos or 10**9
    if resource in amounts:
        nanos = quantities.from_wire(amounts[resource]).nanos
    elif side == "limits":
        held = settings.allocatable.get(resource, 0)
        nanos = held * 10**6 if resource == "cpu" else held * 10**9
    else:
        nanos = 0
    return str(math.ceil(nanos / divisor))


def _listed(values: Mapping[str, str]) -> str:
    """Labels in the format of the downward API: sorted lines with quoted values."""
    return "\n".join(f'{name}="{value}"' for name, value in sorted(values.items()))


def _limits(container: Mapping[str, Any], settings: Settings) -> Limits:
    wanted = container.get("resources") or {}
    limits, requests = wanted.get("limits") or {}, wanted.get("requests") or {}
    batch_cpu = reclaimed.container_amount(container, reclaimed.BATCH_CPU)
    batch_memory = reclaimed.container_amount(container, reclaimed.BATCH_MEMORY)
    if batch_cpu is not None or batch_memory is not None:
        # No cpu limit of its own: the quota of the tier follows what other pods leave.
        return Limits(cpu_request_milli=batch_cpu or 0, memory_bytes=batch_memory, pids=settings.pids, batch=True)
    return Limits(
        cpu_milli=quantities.milli(limits["cpu"]) if "cpu" in limits else None,
        cpu_request_milli=quantities.milli(requests.get("cpu")),
        memory_bytes=quantities.value(limits["memory"]) if "memory" in limits else None,
        pids=settings.pids,
    )


def _groups(spec: Mapping[str, Any]) -> list[int]:
    security = spec.get("securityContext") or {}
    found = list(security.get("supplementalGroups") or ())
    return [*found, security["fsGroup"]] if security.get("fsGroup") is not None else found


def _inherited() -> dict[str, str]:
    found = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**found, "ROTA_PYTHON": sys.executable}


def _container(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    for kind in ("containers", "initContainers"):
        for one in spec.get(kind) or ():
            if one.get("name") == name:
                found: Mapping[str, Any] = one
                return found
    raise LaunchError(_MISSING, f"there is no container {name}")
