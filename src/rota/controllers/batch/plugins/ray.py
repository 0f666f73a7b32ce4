"""Plugin ray: a head and workers that join it; a Service for the head."""

from collections.abc import Iterator
from typing import Any, Final

from rota.api import meta
from rota.api.batch import kinds
from rota.api.meta import Object
from rota.controllers.batch.plugins.plugin import Plugin, Pod, Task, Wanted, host, owned, task_named

_SERVICES: Final = ("", "v1", "services")


class Ray(Plugin):
    """The commands that start Ray's processes."""

    def shape(self, pod: Pod, job: Object, task: Task, index: int) -> None:
        """Give the container of the role its command, unless it has one, and the ports of the head."""
        head = task_named(job, self.arguments.text("head"))
        port, dashboard = self.arguments.number("port"), self.arguments.number("dashboardPort")
        client = self.arguments.number("clientPort")
        if head is None:
            return
        if task["name"] == head["name"]:
            command = (
                f"ray start --head --block --dashboard-host=0.0.0.0 --port={port} --dashboard-port={dashboard} "
                f"--ray-client-server-port={client}"
            )
            ports = {"gcs": port, "dashboard": dashboard, "client-server": client}
            _start(pod, self.arguments.text("headContainer"), command, ports)
        elif task["name"] == self.arguments.text("worker"):
            command = f"ray start --block --address={host(job, head, 0)}:{port}"
            _start(pod, self.arguments.text("workerContainer"), command, {})

    def wanted(self, job: Object) -> Iterator[Wanted]:
        """The Service of the head."""
        name = f"{meta.name(job)}-head-svc"
        numbers = {
            "gcs": self.arguments.number("port"),
            "dashboard": self.arguments.number("dashboardPort"),
            "client-server": self.arguments.number("clientPort"),
        }
        service = {
            "selector": {kinds.JOB_NAME: meta.name(job), kinds.TASK_SPEC: self.arguments.text("head")},
            "ports": [
                {"name": called, "port": number, "targetPort": number, "protocol": "TCP"}
                for called, number in numbers.items()
            ],
        }
        yield Wanted(target=_SERVICES, name=name, make=lambda: owned(job, "v1", "Service", name, spec=service))


def _start(pod: Pod, name: str, command: str, ports: dict[str, int]) -> None:
    found: list[dict[str, Any]] = pod["spec"].get("containers") or []
    container = next((one for one in found if one.get("name") == name), None)
    if container is None:
        return
    if not container.get("command"):
        container["command"], container["args"] = ["sh", "-c"], [command]
    known = {one.get("containerPort") for one in container.setdefault("ports", [])}
    container["ports"] += [
        {"name": called, "containerPort": number, "protocol": "TCP"}
        for called, number in ports.items()
        if number not in known
    ]
