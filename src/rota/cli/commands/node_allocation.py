"""Requested resources of a node by pod, computed as the scheduler does."""

import contextlib
from typing import Any

from rota.api import meta, resources
from rota.client.pods import PODS
from rota.client.verbs import Client, Object, Selection
from rota.columns import pod_interner
from rota.columns.objects import MalformedObjectError
from rota.scheduler.cache import node_account
from rota.scheduler.cache.node_account import NodeAccount, ResourceAccount
from rota.scheduler.cache.scheduler_cache import SchedulerCache


async def account(client: Client, node: Object) -> dict[str, Any]:
    """A node's allocatable resources, the requests of its pods, and the pods."""
    name = meta.name(node)
    cache = SchedulerCache()
    cache.set_node(pod_interner.read_node(node))
    living = f"spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed"
    phases: dict[str, str] = {}
    for pod in (await client.list(PODS, selection=Selection(fields=living))).items:
        # Unparsable requests are not counted by the scheduler either.
        with contextlib.suppress(MalformedObjectError):
            cache.add_or_update_pod(cache.interner.pod(pod))
            phases[meta.uid(pod)] = (pod.get("status") or {}).get("phase") or "Pending"
    found = node_account.account(cache.cluster.by_name[name])
    pods = [_share(share, phases[share.uid]) for share in found.shares]
    return {
        "name": name,
        "unschedulable": found.unschedulable,
        "resources": [_resource(found, resource) for resource in sorted(found.free)],
        "pods": sorted(pods, key=lambda each: (each["namespace"], each["name"])),
    }


def _share(share: ResourceAccount, phase: str) -> dict[str, Any]:
    namespace, _, name = share.pod.partition("/")
    cpu, memory = (share.requests.get(resource, 0) for resource in (resources.CPU, resources.MEMORY))
    return {
        "namespace": namespace,
        "name": name,
        "cpu": resources.shown(resources.CPU, cpu),
        "memory": resources.shown(resources.MEMORY, memory),
        "phase": phase,
    }


def _resource(found: NodeAccount, resource: str) -> dict[str, Any]:
    offered, taken = found.allocatable.get(resource, 0), found.requested.get(resource, 0)
    return {
        "resource": resource,
        "allocatable": resources.shown(resource, offered),
        "requested": resources.shown(resource, taken),
        "free": resources.shown(resource, found.free[resource]),
        "percent": 100 * taken // offered if offered else 0,
    }
