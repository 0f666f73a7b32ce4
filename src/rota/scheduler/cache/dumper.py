"""The cache as plain JSON data, for debugging."""

from typing import Any

from rota.scheduler.cache import node_account
from rota.scheduler.cache.node_account import NodeAccount
from rota.scheduler.cache.scheduler_cache import SchedulerCache


def dump(cache: SchedulerCache) -> dict[str, Any]:
    """Dump every node with its account and its pods, and the pods whose node is unknown."""
    known = cache.cluster.by_name
    return {
        "nodes": [_node(node_account.account(node, cache.assumed)) for _, node in sorted(known.items())],
        "podsWithoutNode": [
            {"pod": pod.key, "uid": pod.uid, "node": pod.node_name}
            for pod in cache.pods()
            if pod.node_name not in known
        ],
        "assumed": {uid: "bound, not seen" if agreed else "binding" for uid, agreed in cache.assumed.items()},
        "generation": cache.cluster.change_log.generation,
    }


def _node(account: NodeAccount) -> dict[str, Any]:
    return {
        "name": account.node,
        "unschedulable": account.unschedulable,
        "allocatable": account.allocatable,
        "requested": account.requested,
        "assumed": account.assumed,
        "free": account.free,
        "pods": [
            {"pod": share.pod, "uid": share.uid, "requests": share.requests, "assumed": share.assumed}
            for share in account.shares
        ],
    }
