"""What a plugin of a Job is, and what plugins share: host names, variables, mounts."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from rota.api import meta
from rota.api.batch.plugin_arguments import Arguments
from rota.api.meta import Object

Task: TypeAlias = Mapping[str, Any]
Pod: TypeAlias = dict[str, Any]
Target: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An object that a Job needs; `make` is called if it does not exist."""

    target: Target
    name: str
    make: Callable[[], dict[str, Any]]
    #: Whether an existing one follows the Job.
    follows: bool = False
    #: Whether the controller may look at an existing one; Secrets are not for it to read.
    readable: bool = True


class Plugin:
    """A plugin that does nothing."""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments

    def shape(self, pod: Pod, job: Object, task: Task, index: int) -> None:
        """Complete a pod in place."""

    def wanted(self, job: Object) -> Iterator[Wanted]:
        """The objects that the Job needs before its pods start."""
        yield from ()


def owned(job: Object, api_version: str, kind: str, name: str, **content: Any) -> dict[str, Any]:
    """An object that belongs to a Job."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": meta.namespace(job),
            "ownerReferences": [meta.controller_reference(job)],
        },
        **content,
    }


def task_named(job: Object, name: str) -> Task | None:
    """A task of a Job."""
    return next((one for one in job["spec"].get("tasks") or () if one["name"] == name), None)


def replicas(task: Task | None) -> int:
    """The number of a task's pods."""
    return int((task or {}).get("replicas") or 0)


def host(job: Object, task: Task, index: int) -> str:
    """The name by which the pods of a Job reach one of them; plugin svc makes it known."""
    return f"{meta.name(job)}-{task['name']}-{index}.{meta.name(job)}"


def hosts(job: Object, task: Task | None) -> list[str]:
    """The names of all pods of a task."""
    return [] if task is None else [host(job, task, index) for index in range(replicas(task))]


def containers(pod: Pod) -> Iterator[dict[str, Any]]:
    """All containers of a pod."""
    for kind in ("initContainers", "containers"):
        yield from pod["spec"].get(kind) or ()


def set_variable(pod: Pod, name: str, value: str | None = None, source: Mapping[str, Any] | None = None) -> None:
    """Give all containers a variable, unless they define it."""
    entry: dict[str, Any] = {"name": name}
    if source is None:
        entry["value"] = value or ""
    else:
        entry["valueFrom"] = dict(source)
    for container in containers(pod):
        variables = container.setdefault("env", [])
        if all(one.get("name") != name for one in variables):
            variables.append(dict(entry))


def set_port(pod: Pod, name: str, number: int) -> None:
    """Declare a port of all containers that do not declare it."""
    for container in pod["spec"].get("containers") or ():
        ports = container.setdefault("ports", [])
        if all(one.get("containerPort") != number for one in ports):
            ports.append({"name": name, "containerPort": number, "protocol": "TCP"})


def mount(pod: Pod, name: str, source: Mapping[str, Any], path: str) -> None:
    """Mount a volume in all containers."""
    volumes = pod["spec"].setdefault("volumes", [])
    if all(one.get("name") != name for one in volumes):
        volumes.append({"name": name, **source})
    for container in containers(pod):
        mounts = container.setdefault("volumeMounts", [])
        if all(one.get("mountPath") != path for one in mounts):
            mounts.append({"name": name, "mountPath": path})


def rank(job: Object, task: Task, index: int, *, master: str, worker: str) -> int | None:
    """The rank of a pod: masters first, then workers; None for other tasks."""
    if task["name"] == master:
        return index
    return replicas(task_named(job, master)) + index if task["name"] == worker else None
