"""`/exec` and `/attach` for the API server: commands in containers, and the streams of a container's own process.

Attach shows what a container's process writes from now on, and lets the client write if it has stdin.
"""

from functools import partial
from typing import Final

from aiohttp import web

from rota.api import errors
from rota.worker.endpoint import channels, lookup
from rota.worker.pod_machine.containers import Container, Stage
from rota.worker.pod_machine.pods import Pod
from rota.worker.runtimes import sessions
from rota.worker.runtimes.runtime_interface import LaunchError
from rota.worker.runtimes.sessions import Session
from rota.worker.worker_assembly import Worker

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


def routes(worker: Worker) -> list[web.RouteDef]:
    """The routes of exec and attach."""

    async def execute(request: web.Request) -> web.StreamResponse:
        at, query = request.match_info, request.query
        command = query.getall("command", [])
        tty, stdin = query.get("tty") in _TRUE, query.get("input") in _TRUE

        async def begin() -> Session:
            if not command:
                raise errors.BadRequest("you must specify at least one command for the container")
            pod, container = _running(worker, at["namespace"], at["pod"], at["container"])
            launch = await worker.agent.launch_of(pod.uid, container.name, container.run)
            if launch is None:
                raise _not_found(container.name)
            try:
                return await sessions.begin(worker.runtime.inside(launch, command, tty=tty), tty=tty, stdin=stdin)
            except (LaunchError, OSError) as problem:
                raise errors.InternalError(f"error executing command in container: {problem}") from problem

        return await channels.converse(request, begin, stdin=stdin, outputs=_outputs(request))

    async def attach(request: web.Request) -> web.StreamResponse:
        at = request.match_info
        stdin = request.query.get("input") in _TRUE

        async def begin() -> Session:
            pod, container = _running(worker, at["namespace"], at["pod"], at["container"])
            launch = await worker.agent.launch_of(pod.uid, container.name, container.run)
            if launch is None:
                raise _not_found(container.name)
            try:
                ends = await worker.runtime.attach(launch.id)
            except LaunchError as problem:
                raise errors.InternalError(f"error attaching to container: {problem}") from problem
            once = stdin and launch.stdin_once
            return sessions.attached(ends, end_input=partial(worker.runtime.end_input, launch.id) if once else None)

        return await channels.converse(request, begin, stdin=stdin, outputs=_outputs(request))

    return [
        web.get("/exec/{namespace}/{pod}/{container}", execute),
        web.get("/attach/{namespace}/{pod}/{container}", attach),
    ]


def _running(worker: Worker, namespace: str, name: str, container: str) -> tuple[Pod, Container]:
    pod = lookup.by_name(worker, namespace, name)
    found = pod.containers.get(container)
    if found is None or found.stage is not Stage.RUNNING:
        raise _not_found(container)
    return pod, found


def _not_found(container: str) -> errors.ApiError:
    return errors.NotFound(f'container not found ("{container}")')


def _outputs(request: web.Request) -> list[bool]:
    """The streams that the client requests; a terminal has no stderr."""
    wanted = [which for which, name in ((False, "output"), (True, "error")) if request.query.get(name) in _TRUE]
    if request.query.get("tty") in _TRUE and True in wanted:
        wanted.remove(True)
    return wanted
