"""Whether anybody at a server acts on a kind: nobody does on a Deployment where no controller of Deployments runs.

A Rota server tells which controllers its masters run by the roles that it keeps for them (`rota:controller:NAME`). Of
other servers nothing is claimed.
"""

from typing import Final

from rota.api import errors
from rota.api.kinds import ResourceType
from rota.client import wire
from rota.client.verbs import Client

_ROLES: Final = ("rbac.authorization.k8s.io", "v1", "clusterroles")
#: Kinds that do nothing by themselves: somebody must make pods of them. By group, the names that their
#: controllers may have, in the roster of `rota.controllers`.
_NEEDY: Final = {
    ("apps", "Deployment"): ("deployments",),
    ("apps", "ReplicaSet"): ("replica-sets", "replicasets"),
    ("apps", "StatefulSet"): ("stateful-sets", "statefulsets"),
    ("apps", "DaemonSet"): ("daemon-sets", "daemonsets"),
    ("", "ReplicationController"): ("replication-controllers", "replicationcontrollers"),
    ("batch", "Job"): ("jobs",),
    ("batch", "CronJob"): ("cron-jobs", "cronjobs"),
    ("autoscaling", "HorizontalPodAutoscaler"): ("horizontal-pod-autoscalers", "autoscaling", "autoscalers"),
}


async def idle_hint(client: Client, kind: ResourceType) -> str:
    """What to say of an object that nobody will act on; nothing if somebody will, or if that is not known."""
    names = _NEEDY.get((kind.group, kind.kind))
    if names is None or not await _is_rota(client):
        return ""
    for name in names:
        try:
            await client.get(_ROLES, f"rota:controller:{name}")
        except errors.NotFound:
            continue
        except errors.ApiError:
            return ""  # whoever may not see roles is told nothing
        return ""
    return f"nothing here acts on {kind.kind}s yet: it is kept, but no pods come of it; submit a Pod, or use rota run"


async def _is_rota(client: Client) -> bool:
    try:
        version = wire.decode_object(await client.request("GET", "/version"))
    except errors.ApiError:
        return False
    return "rota" in str(version.get("gitVersion", ""))
