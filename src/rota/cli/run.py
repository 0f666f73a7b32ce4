"""`rota run`: a command, run where there is room for it, as if it were run here."""

import asyncio
import contextlib
import functools
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, Final

import click

from rota.api import errors as api_errors
from rota.api import meta, quantities
from rota.cli import endpoints
from rota.cli.commands import Command
from rota.client import connecting, pods
from rota.client.pods import PODS
from rota.client.transports.contract import TransportError
from rota.client.verbs import Client, Object, Selection
from rota.client.wire import EventType
from rota.kit import errors, logs, system

#: The command could not be started.
NOT_STARTED: Final = 125
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_CONTAINER: Final = "main"
_GPU: Final = "nvidia.com/gpu"
_server_options: Final = functools.partial(
    endpoints.server_options, default="$KUBECONFIG, or that of `rota up` on this machine"
)


@click.command(
    "run",
    cls=Command,
    examples=[
        ("rota run -- echo hi", "run it, show its output, exit with its code"),
        ("rota run --cpu 2 --memory 4Gi -- python train.py", "where two cores and 4 GiB are free"),
        ("rota run --detach --name nightly -- ./backup.sh", "leave it running; kubectl logs -f nightly shows it"),
        ("rota run --env LEVEL=3 --label team=a -- make test", "with a variable and a label"),
    ],
)
@click.argument("command_line", metavar="COMMAND [ARG]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--name", default="", metavar="NAME", help="What to call it.  [default: the command and some letters]")
@click.option("-n", "--namespace", metavar="NAME", help="Where it belongs.  [default: the context's]")
@click.option("--cpu", default="", metavar="AMOUNT", help="Cores that it needs: 2, 0.5, 500m.")
@click.option("--memory", default="", metavar="AMOUNT", help="Memory that it needs, and may use at most: 512Mi, 4Gi.")
@click.option("--gpu", type=click.IntRange(1), metavar="N", help="GPUs that it needs.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@click.option("--env", "variables", multiple=True, metavar="KEY=VALUE", help="An environment variable; repeatable.")
@click.option("--workdir", metavar="DIR", help="Where it runs.  [default: here]")
@click.option("--detach", is_flag=True, help="Print its name and leave it running.")
@click.option("--wait", "wait_only", is_flag=True, help="Show its output when it is done, not before.")
@_server_options
@click.pass_context
def command(
    ctx: click.Context, /, *, command_line: tuple[str, ...], detach: bool, wait_only: bool, **given: Any
) -> None:
    """Run COMMAND on a worker with room for it, show what it says, and exit with its code.

    Ctrl-C ends it. The exit code is the command's own; 125 if it could not be started.
    """
    logs.configure(level="warning")
    server = {name: given.pop(name) for name in ("kubeconfig_file", "context", "server")}
    endpoint = endpoints.own_cluster(**server)
    namespace = given.pop("namespace") or endpoint.namespace
    pod = manifest(command_line, namespace=namespace, **given)

    async def work() -> int:
        clock, chance = system.SystemClock(), system.chance()
        async with connecting.to_server(endpoint, clock=clock, chance=chance) as client:
            made = await client.create(PODS, pod)
            if detach:
                click.echo(meta.name(made))
                return 0
            return await _attended(client, made, follow=not wait_only)

    try:
        ctx.exit(asyncio.run(work()))
    except (api_errors.ApiError, TransportError) as error:
        raise errors.UserError(f"{endpoint.server}: {error}") from error


def manifest(
    command_line: tuple[str, ...],
    *,
    namespace: str,
    name: str,
    cpu: str,
    memory: str,
    gpu: int | None,
    labels: tuple[str, ...],
    variables: tuple[str, ...],
    workdir: str | None,
) -> dict[str, Any]:
    """The pod that runs a command."""
    requests = {"cpu": cpu, "memory": memory, _GPU: str(gpu) if gpu else ""}
    for option, amount in (("--cpu", cpu), ("--memory", memory)):
        _check_amount(option, amount)
    asked = {one: amount for one, amount in requests.items() if amount}
    # Memory and devices are given for good; cpu is shared where nobody else wants it.
    limits = {one: amount for one, amount in asked.items() if one != "cpu"}
    container: dict[str, Any] = {
        "name": _CONTAINER,
        "image": "process",
        # A dollar is the shell's business or the command's own, not a reference to a variable of the pod.
        "command": [word.replace("$", "$$") for word in command_line],
        "workingDir": workdir or str(Path.cwd()),
        "env": [{"name": key, "value": value} for key, value in _pairs("--env", variables).items()],
        "resources": {"requests": asked, "limits": limits},
    }
    metadata: dict[str, Any] = {"namespace": namespace, "labels": _pairs("--label", labels)}
    metadata |= {"name": name} if name else {"generateName": f"{_stem(command_line[0])}-"}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def _attended(client: Client, made: Object, *, follow: bool) -> int:
    """Stay with a task until it is done; its exit code. Whoever leaves takes it along."""
    name, namespace = meta.name(made), meta.namespace(made)
    try:
        async with contextlib.aclosing(_states(client, made)) as states:
            pod = await _begun(states)
            if follow or (pod.get("status") or {}).get("phase") not in _FINISHED:
                if follow:
                    await _show(client, name, namespace, follow=True)
                while (pod.get("status") or {}).get("phase") not in _FINISHED:
                    pod = await anext(states)
        if not follow:
            await _show(client, name, namespace, follow=False)
    except BaseException:
        with contextlib.suppress(api_errors.ApiError, TransportError):
            await client.delete(PODS, name, namespace=namespace, uid=meta.uid(made))
        raise
    return _code(pod)


async def _states(client: Client, made: Object) -> AsyncGenerator[Object, None]:
    """The pod, each time that it changes; a watch that breaks is taken up again."""
    name, namespace = meta.name(made), meta.namespace(made)
    selection = Selection(fields=f"metadata.name={name}")
    pod = made
    yield pod
    while True:
        version = meta.metadata(pod)["resourceVersion"]
        with contextlib.suppress(api_errors.Expired, api_errors.Gone, TransportError):
            watching = client.watch(PODS, namespace=namespace, selection=selection, resource_version=version)
            async with watching as events:
                async for event in events:
                    if event.type in {EventType.ADDED, EventType.MODIFIED}:
                        pod = event.object
                        yield pod
                    elif event.type is EventType.DELETED:
                        raise errors.UserError(f"{name} is gone", "somebody else deleted it")
        pod = await client.get(PODS, name, namespace=namespace)
        yield pod


async def _begun(states: AsyncIterator[Object]) -> Object:
    """Wait until there is output to be had, and say meanwhile what is waited for."""
    said = ""
    async for pod in states:
        note = _note(pod)
        if note and note != said:
            click.echo(note, err=True)
            said = note
        if _has_run(pod) or (pod.get("status") or {}).get("phase") in _FINISHED:
            return pod
    raise AssertionError("the states of a pod do not end")


def _note(pod: Object) -> str:
    name, node = meta.name(pod), (pod.get("spec") or {}).get("nodeName")
    if node:
        return f"{name} runs on {node}"
    scheduled = meta.condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.get("status") == "False":
        return f"{name} waits: {scheduled.get('message', '')}"
    return ""


async def _show(client: Client, name: str, namespace: str, *, follow: bool) -> None:
    with contextlib.suppress(api_errors.BadRequest):
        async with pods.logs(client, name, namespace=namespace, container=_CONTAINER, follow=follow) as chunks:
            async for chunk in chunks:
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()


def _has_run(pod: Object) -> bool:
    state = _state(pod)
    return "running" in state or "terminated" in state


def _state(pod: Object) -> Object:
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    found: Object = statuses[0].get("state") or {}
    return found


def _code(pod: Object) -> int:
    """The exit code of a task that is done."""
    ended = _state(pod).get("terminated") or {}
    status = pod.get("status") or {}
    if ended.get("reason") == "StartError" or not ended:
        why = ended.get("message") or status.get("message") or status.get("reason") or "it was not started"
        raise click.exceptions.Exit(_refuse(f"{meta.name(pod)}: {why}"))
    if ended.get("reason") not in {"Completed", "Error"}:
        click.echo(f"{meta.name(pod)}: {ended.get('reason')}", err=True)
    return int(ended.get("exitCode", NOT_STARTED))


def _refuse(message: str) -> int:
    click.echo(f"rota: {message}", err=True)
    return NOT_STARTED


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} {text}: write KEY=VALUE")
        found[key] = value
    return found


def _check_amount(option: str, text: str) -> None:
    try:
        quantities.parse(text or "0")
    except quantities.QuantityError:
        raise click.UsageError(f"{option} {text}: no amount; write 2, 500m or 4Gi") from None


def _stem(word: str) -> str:
    """A name's beginning, from a command."""
    return re.sub(r"[^a-z0-9-]+", "-", Path(word).name.lower()).strip("-")[:40] or "task"
