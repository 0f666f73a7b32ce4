"""Finds the pod and the container that a request names."""

from rota.api import errors, meta
from rota.worker.pod_machine.containers import Container
from rota.worker.pod_machine.pods import Pod
from rota.worker.worker_assembly import Worker


def by_name(worker: Worker, namespace: str, name: str) -> Pod:
    """The pod of this name; if there are several, since an old one may still terminate, the newest."""
    found = [
        one
        for one in worker.agent.machine.pods
        if meta.name(one.seen) == name and meta.namespace(one.seen) == namespace
    ]
    if not found:
        raise errors.NotFound(f'pod "{namespace}/{name}" is not on node {worker.machine.node}')
    return max(found, key=lambda one: one.begun_at)


def by_uid(worker: Worker, uid: str, name: str) -> Pod:
    """The pod with this uid; `name` is for the error message."""
    found = worker.agent.machine.pod(uid)
    if found is None:
        raise errors.NotFound(f"{worker.machine.node} has nothing of pod {name}")
    return found


def container(pod: Pod, name: str) -> Container:
    """A container of a pod."""
    found = pod.containers.get(name)
    if found is None:
        raise errors.NotFound(f'container "{name}" not found in pod "{meta.name(pod.seen)}"')
    return found
