"""Jobs and queues as tests write them, and waits for their phases."""

from collections.abc import Callable
from typing import Any

from tests.controllers.workloads import Ending, listed

from rota.api import meta
from rota.api.batch import kinds
from rota.client.paths import Target
from rota.client.verbs import Object
from rota.testing.virtual_api import VirtualCluster

PODS = ("", "v1", "pods")


def task(name: str = "w", replicas: int = 1, **fields: Any) -> dict[str, Any]:
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {"name": "main", "image": "none", "command": ["true"], "resources": {"requests": {"cpu": "500m"}}}
        ],
    }
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **fields}


def job(*tasks: dict[str, Any], name: str = "work", scheduler: str = "default-scheduler", **spec: Any) -> Object:
    """A Job whose pods are created at once, unless it is for a batch scheduler."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": scheduler, "tasks": list(tasks) or [task()], **spec},
    }


def on(event: str, action: str, **fields: Any) -> dict[str, Any]:
    return {"event": event, "action": action, **fields}


def command(action: str, target: Object) -> Object:
    about = {
        "apiVersion": target["apiVersion"],
        "kind": target["kind"],
        "name": meta.name(target),
        "uid": meta.uid(target),
    }
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": f"{meta.name(target)}-{action.lower()}", "namespace": "default"},
        "action": action,
        "target": about,
    }


def ends(**codes: int) -> Callable[[Object], Ending | None]:
    """How the pods of tasks end; those of other tasks run on."""

    def ending(pod: Object) -> Ending | None:
        name = meta.annotations(pod).get(kinds.TASK_SPEC, "")
        return Ending(code=codes[name]) if name in codes else None

    return ending


async def reaches_phase(cluster: VirtualCluster, phase: str, name: str = "work", target: Target = kinds.JOBS) -> Object:
    async def there() -> bool:
        found = await cluster.client.get(target, name, namespace="default")
        return bool(((found.get("status") or {}).get("state") or {}).get("phase") == phase)

    try:
        await cluster.until(there)
    except AssertionError:
        seen = (await cluster.client.get(target, name, namespace="default")).get("status")
        raise AssertionError(f"{name} did not reach {phase}: {seen}") from None
    return await cluster.client.get(target, name, namespace="default")


async def pods(cluster: VirtualCluster) -> dict[str, Object]:
    """The pods of the default namespace that are not being deleted, by name."""
    return {meta.name(one): one for one in await listed(cluster, PODS) if not meta.is_deleting(one)}
