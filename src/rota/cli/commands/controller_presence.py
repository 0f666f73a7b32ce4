"""Whether anybody at a server acts on a kind: nobody does on a Deployment where no controller of Deployments runs.

A Rota server tells which controllers its masters run by the roles that it keeps for them (`rota:controller:NAME`). Of
other servers nothing is claimed.
"""

import re
from typing import Final

from rota.api import errors
from rota.api.kinds import ResourceType
from rota.client import wire
from rota.client.verbs import Client

_ROLES: Final = ("rbac.authorization.k8s.io", "v1", "clusterroles")
#: Kinds that do nothing by themselves: somebody must make pods of them.
NEEDY: Final = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("", "ReplicationController"),
        ("batch", "Job"),
        ("batch", "CronJob"),
    }
)


def controller_of(kind: str) -> str:
    """What a kind's controller is called in the roster of `rota.controllers`: `cron-jobs` for a CronJob."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind).lower() + "s"


async def idle_hint(client: Client, kind: ResourceType) -> str:
    """What to say of an object that nobody will act on; nothing if somebody will, or if that is not known."""
    if (kind.group, kind.kind) not in NEEDY or not await _is_rota(client):
        return ""
    try:
        await client.get(_ROLES, f"rota:controller:{controller_of(kind.kind)}")
    except errors.NotFound:
        pass
    except errors.ApiError:
        return ""  # whoever may not see roles is told nothing
    else:
        return ""
    return f"nothing here acts on {kind.kind}s yet: it is kept, but no pods come of it; submit a Pod, or use rota run"


async def _is_rota(client: Client) -> bool:
    try:
        version = wire.decode_object(await client.request("GET", "/version"))
    except errors.ApiError:
        return False
    return "rota" in str(version.get("gitVersion", ""))
