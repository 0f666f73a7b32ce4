"""The initial objects of every cluster: namespaces, priority and runtime classes, a service for the API, batch kinds.

Creating an existing object changes nothing, so every server does this when it starts. A definition that this server's
predecessor installed is brought up to date; one that a user installed under the same name is left alone.
"""

import contextlib
import functools
from ipaddress import IPv4Network
from typing import Any, Final

from rota.api import errors
from rota.api.batch import definitions
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.api.patches import json_values
from rota.api.users import ADMINISTRATOR
from rota.apiserver.admission.runtime_classes import RUNTIMES
from rota.apiserver.admission.service_addresses import SERVICES
from rota.apiserver.crd_controller import DEFINITIONS
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.registry.objects import ObjectRegistry

_MANAGER: Final = "rota-apiserver"
_QUEUES: Final = GroupResource("scheduling.volcano.sh", "queues")
#: On definitions that servers install and update.
_INSTALLED: Final = "rota.dev/installed"
_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES: Final[tuple[dict[str, Any], ...]] = (
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "Used for system critical pods that must not be moved from their current node.",
    },
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": "Used for system critical pods that must run in the cluster, but can be moved to another node "
        "if necessary.",
    },
)


#: The runtimes of workers; not every machine has root file systems for containers.
_RUNTIMES: Final[tuple[dict[str, Any], ...]] = (
    {"metadata": {"name": "process"}, "handler": "process"},
    {
        "metadata": {"name": "container"},
        "handler": "container",
        "scheduling": {"nodeSelector": {"rota.dev/containers": "true"}},
    },
)

#: Software in pods finds the API by this name.
_OWN_SERVICE: Final[dict[str, Any]] = {
    "metadata": {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {
        "type": "ClusterIP",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
    },
}


async def ensure(registry: ObjectRegistry, network: IPv4Network) -> None:
    """Create missing objects; the API's own service has the first address of the network, as upstream."""
    for name in _NAMESPACES:
        await _ensure(registry, GroupResource("", "namespaces"), {"metadata": {"name": name}})
    for priority in _PRIORITIES:
        await _ensure(registry, GroupResource("scheduling.k8s.io", "priorityclasses"), priority)
    for runtime in _RUNTIMES:
        await _ensure(registry, RUNTIMES, runtime)
    own = {**_OWN_SERVICE, "spec": {**_OWN_SERVICE["spec"], "clusterIP": str(network[1])}}
    await _ensure(registry, SERVICES, own)


async def ensure_batch_kinds(registry: ObjectRegistry) -> None:
    """Define Volcano's kinds; they are served once the CRD controller has read them."""
    resource = registry.resource(DEFINITIONS)
    for definition in definitions.definitions():
        named = {**definition["metadata"], "annotations": {_INSTALLED: "batch"}}
        await _ensure(registry, DEFINITIONS, {**definition, "metadata": named})
        present = await registry.find(resource, "", named["name"])
        if present is None or present.object["spec"]["versions"] == definition["spec"]["versions"]:
            continue
        if _INSTALLED in (present.object["metadata"].get("annotations") or {}):
            at = _attributes(registry, resource, "update", name=named["name"])
            versions = json_values.copy(definition["spec"]["versions"])
            await registry.rewrite(at, present, functools.partial(_with_versions, versions))


async def ensure_queues(registry: ObjectRegistry) -> None:
    """Create the root queue and the default queue."""
    for queue in definitions.queues():
        await _ensure(registry, _QUEUES, queue)


def _with_versions(versions: list[Any], definition: Object) -> Object:
    generation = definition["metadata"].get("generation", 1) + 1
    return {
        **definition,
        "metadata": {**definition["metadata"], "generation": generation},
        "spec": {**definition["spec"], "versions": versions},
    }


async def _ensure(registry: ObjectRegistry, which: GroupResource, content: Object) -> None:
    resource = registry.resource(which)
    name, namespace = content["metadata"]["name"], content["metadata"].get("namespace", "")
    if await registry.find(resource, namespace, name) is not None:
        return
    at = _attributes(registry, resource, "create", namespace=namespace, name=name)
    # another server may start at the same time
    with contextlib.suppress(errors.AlreadyExists):
        new: Object = {"apiVersion": resource.api_version, "kind": resource.kind, **content}
        await registry.create(at, json_values.copy(new))


def _attributes(
    registry: ObjectRegistry, resource: ResourceType, verb: str, *, name: str, namespace: str = ""
) -> Attributes:
    return Attributes(
        user=ADMINISTRATOR,
        verb=verb,
        resource=resource,
        now=registry.clock.now(),
        namespace=namespace,
        name=name,
        field_manager=_MANAGER,
    )
