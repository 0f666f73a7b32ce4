"""`rota run`: submits a task, follows it, and deletes it on a signal."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import click

from rota.api import errors as api_errors
from rota.api import meta
from rota.cli import endpoints, output
from rota.cli.commands import delays, log_reader, placement_reasons, session, stream_bridge, task_manifest
from rota.cli.commands.cordon import NODES
from rota.cli.commands.log_reader import LogRequest
from rota.client import exec_stream
from rota.client import pods as podding
from rota.client.exec_stream import Conversation
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Selection
from rota.client.wire import EventType
from rota.kit import default_paths, system

_FINISHED: Final = frozenset({"Succeeded", "Failed"})
#: Signals within this time after the first one count as the same signal.
_ECHO_S: Final = 0.5
#: The interval between checks of the task's node.
_LOOK_S: Final = 3.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Attach(Protocol):
    """Opens a stream to a pod's container."""

    def __call__(self, pod: str, /, *, namespace: str) -> contextlib.AbstractAsyncContextManager[Conversation]:
        """The stream, open inside the context."""
        ...


class _Lost(Exception):
    """The task is gone, or never ran; the message says why."""


def run(
    *,
    command_line: tuple[str, ...],
    namespace: str,
    detach: bool,
    wait_only: bool,
    remove: bool,
    stdin: bool,
    tty: bool,
    not_started: int,
    kubeconfig_file: Any,
    context: str,
    server: str | None,
    **pod_options: Any,
) -> int:
    """Run a command as a task; returns its exit code."""
    endpoint = endpoints.own_cluster(kubeconfig_file=kubeconfig_file, context=context, server=server)
    tty = stream_bridge.terminal(tty=tty)
    pod_options["workdir"] = pod_options["workdir"] or _here()
    pod_options |= {"stdin": stdin, "tty": tty, "terminal": os.environ.get("TERM", "")}
    pod = task_manifest.manifest(command_line, namespace=namespace or endpoint.namespace, **pod_options)
    attach = (
        partial(exec_stream.attach, endpoint, container=task_manifest.CONTAINER, output=tty, tty=tty) if stdin else None
    )

    async def work(client: Client) -> int:
        with _signals() as told:
            made = await client.create(PODS, pod)
            if detach:
                click.echo(meta.name(made))
                output.note(f"follow it: rota logs -f {meta.name(made)}")
                return 0
            staying = _TaskFollower(
                client, made, follow=not wait_only, remove=remove, told=told, attach=attach, tty=tty
            )
            return await staying.exit_code()

    try:
        return session.at(endpoint, work)
    except _Lost as lost:
        click.echo(f"rota: {output.printable(lost)}", err=True)
        return not_started


def _here() -> str:
    """This folder, the default working directory of tasks; empty if root's tasks, which are not root, may not enter."""
    here = Path.cwd()
    if os.geteuid() == 0 and (closed := default_paths.closed(here)) is not None:
        output.note(f"{closed} is closed to other users, as tasks are: it starts in a folder of its own")
        return ""
    return str(here)


@contextlib.contextmanager
def _signals() -> Iterator["asyncio.Queue[int]"]:
    """Termination signals as they arrive, instead of their default action."""
    loop, told = asyncio.get_running_loop(), asyncio.Queue[int]()
    caught = [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
    for number in caught:
        loop.add_signal_handler(number, told.put_nowait, number)
    try:
        yield told
    finally:
        for number in caught:
            loop.remove_signal_handler(number)


class _TaskFollower:
    """Follows one task until it ends. An interruption deletes the task."""

    def __init__(
        self,
        client: Client,
        made: Object,
        *,
        follow: bool,
        remove: bool,
        told: "asyncio.Queue[int]",
        attach: Attach | None,
        tty: bool,
    ) -> None:
        self._client: Final = client
        self._made: Final = made
        #: The pod as last seen.
        self._latest = made
        self._name: Final = meta.name(made)
        self._follow: Final = follow
        self._remove: Final = remove
        self._told: Final = told
        self._attach: Final = attach
        self._tty: Final = tty

    async def exit_code(self) -> int:
        """The exit code of the task, or of the signal that ended it."""
        staying = asyncio.create_task(self._stay())
        under_way = {staying}
        try:
            signalled = await self._signalled_before(staying)
            if not signalled:
                return _code(await staying)
            output.note(f"ending {self._name}; once more ends it at once")
            ending = await self._end(staying)
            under_way.add(ending)
            # A signal to a whole process group may arrive twice; a person takes longer.
            await asyncio.wait({ending}, timeout=_ECHO_S)
            while not self._told.empty():
                self._told.get_nowait()
            if await self._signalled_before(ending):
                await self._delete(grace_period_s=0)
            await asyncio.gather(ending, return_exceptions=True)
            return 128 + signalled
        except _Lost:
            raise
        except BaseException:
            await self._delete()
            raise
        finally:
            for one in under_way:
                one.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
            if self._remove:
                await self._delete()

    async def _signalled_before(self, task: "asyncio.Task[Object]") -> int:
        """Wait for the end of a task, or for a signal; returns the signal's number, or 0."""
        signalled = asyncio.create_task(self._told.get())
        try:
            await asyncio.wait({task, signalled}, return_when=asyncio.FIRST_COMPLETED)
            return 0 if task.done() else signalled.result()
        finally:
            signalled.cancel()

    async def _end(self, staying: "asyncio.Task[Object]") -> "asyncio.Task[Object]":
        """Delete the task; done when its last output was printed."""
        if self._follow:
            await self._delete()
            return staying
        staying.cancel()
        return asyncio.create_task(self._hear_out())

    async def _hear_out(self) -> Object:
        """Delete the task while its output is read, because its log is deleted with it."""
        namespace = meta.namespace(self._made)
        listening = podding.logs(
            self._client, self._name, namespace=namespace, container=task_manifest.CONTAINER, follow=True
        )
        async with contextlib.AsyncExitStack() as exits:
            try:
                chunks = await exits.enter_async_context(listening)
            except (api_errors.ApiError, TransportError):
                await self._delete()
                return self._made
            await self._delete()
            async for chunk in chunks:
                log_reader.write(chunk)
        return self._made

    async def _delete(self, **how: Any) -> None:
        with contextlib.suppress(api_errors.ApiError, TransportError):
            where = meta.namespace(self._made)
            await self._client.delete(PODS, self._name, namespace=where, uid=meta.uid(self._made), **how)

    async def _stay(self) -> Object:
        """Print the task's output, and wait until it ends; returns the final pod."""
        async with contextlib.aclosing(self._states()) as states, self._watching_node():
            with output.waiting() as say:
                pod = await self._begun(states, say)
            if (pod.get("spec") or {}).get("nodeName"):
                await self._tell_place(pod)
            if self._follow:
                await self._talk()
            while not _is_done(pod):
                pod = await anext(states)
        if not self._follow:
            await self._show()
        return pod

    async def _states(self) -> AsyncGenerator[Object, None]:
        """The pod after each change; a broken watch is resumed."""
        namespace = meta.namespace(self._made)
        selection = Selection(fields=f"metadata.name={self._name}")
        pod = self._made
        yield pod
        while True:
            self._latest = pod
            version = meta.metadata(pod)["resourceVersion"]
            with contextlib.suppress(api_errors.Expired, api_errors.Gone, TransportError):
                watching = self._client.watch(PODS, namespace=namespace, selection=selection, resource_version=version)
                async with watching as events:
                    async for event in events:
                        if event.type in {EventType.ADDED, EventType.MODIFIED}:
                            pod = self._latest = event.object
                            yield pod
                        elif event.type is EventType.DELETED:
                            if _is_done(event.object):
                                yield event.object
                            raise _Lost(_fate(event.object))
            try:
                pod = await self._client.get(PODS, self._name, namespace=namespace)
            except api_errors.NotFound:
                raise _Lost(_fate(pod)) from None
            yield pod

    @contextlib.asynccontextmanager
    async def _watching_node(self) -> AsyncIterator[None]:
        """Report what delays the task's start, and that its node is not ready, as long as that lasts."""
        looking = asyncio.create_task(self._look_at_node())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look_at_node(self) -> None:
        clock, said = system.SystemClock(), ""
        while True:
            await clock.sleep(_LOOK_S)
            with contextlib.suppress(api_errors.ApiError, TransportError):
                found = await self._delay(self._latest, now=clock.now())
                # times in the message change, the problem does not
                if (words := found.partition(" for ")[0]) != said:
                    said = words
                    if found:
                        output.note(f"{self._name} {found}; Ctrl-C takes the task back")

    async def _delay(self, pod: Object, *, now: float) -> str:
        """The problem of a task that has a node; empty if there is none."""
        node = (pod.get("spec") or {}).get("nodeName") or ""
        if not node or _is_done(pod):
            return ""
        try:
            found: Object | None = await self._client.get(NODES, node)
        except api_errors.NotFound:
            found = None
        runs = "running" in _state(pod)
        if problem := delays.node_problem(found, node, now=now):
            return f"{'may still run, but' if runs else 'waits:'} {problem}"
        problem = "" if runs else delays.start_problem(pod)
        return f"waits on {node}: {problem}" if problem else ""

    async def _begun(self, states: AsyncIterator[Object], say: Callable[[str], None]) -> Object:
        """Wait until there is output, and report meanwhile what is waited for."""
        told = False
        async for pod in states:
            if _is_done(pod) or "running" in _state(pod):
                return pod
            if not told and _refused(pod):
                told = True
                say(f"{self._name} waits: {_refused(pod)}")
                await self._tell_hints(pod)
        raise AssertionError("the states of a pod do not end")

    async def _tell_place(self, pod: Object) -> None:
        node = pod["spec"]["nodeName"]
        why = placement_reasons.reason(await placement_reasons.ask(self._client, pod), node)
        output.note(f"{self._name} runs on {node}{f', {why}' if why else ''}")

    async def _tell_hints(self, pod: Object) -> None:
        for hint in placement_reasons.hints(await placement_reasons.ask(self._client, pod)):
            output.note(f"  it {hint}" if hint.startswith(("needs ", "requests ")) else f"  {hint}")
        output.note(f"  rota explain pod {self._name} tells more; Ctrl-C takes it back")

    async def _talk(self) -> None:
        """Print the task's output while it runs, and forward input if requested.

        With a terminal both use one stream. Otherwise output is read from the log.
        """
        if self._attach is None:
            await self._show()
        elif not self._tty or not await self._converse():
            handing_on = asyncio.create_task(self._converse())
            try:
                await self._show()
            finally:
                handing_on.cancel()
                await asyncio.gather(handing_on, return_exceptions=True)

    async def _converse(self) -> bool:
        """Attach to the task until it ends; returns whether it was there to attach to."""
        assert self._attach is not None
        try:
            async with self._attach(self._name, namespace=meta.namespace(self._made)) as conversation:
                await stream_bridge.converse(conversation, stdin=True, tty=self._tty)
        except api_errors.Forbidden as problem:
            # otherwise it would wait silently for input that it cannot get
            output.note(f"what is read here does not reach the task: {problem}")
            return False
        except (api_errors.ApiError, TransportError):
            return False
        return True

    async def _show(self) -> None:
        wish = LogRequest(follow=self._follow)
        with contextlib.suppress(api_errors.BadRequest, api_errors.NotFound):
            chunks = log_reader.output_of(self._client, self._made, task_manifest.CONTAINER, wish)
            async with contextlib.aclosing(chunks):
                async for chunk in chunks:
                    log_reader.write(chunk)


def _refused(pod: Object) -> str:
    """Why no node takes it, if known."""
    scheduled = meta.condition(pod, "PodScheduled")
    if scheduled is None or scheduled.get("status") != "False":
        return ""
    return str(scheduled.get("message") or scheduled.get("reason") or "no node takes it")


def _is_done(pod: Object) -> bool:
    """Whether it will not run any more; a task is never restarted."""
    return (pod.get("status") or {}).get("phase") in _FINISHED or "terminated" in _state(pod)


def _state(pod: Object) -> Object:
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    found: Object = statuses[0].get("state") or {}
    return found


def _fate(pod: Object) -> str:
    """The message about a pod that is gone."""
    disruption = meta.condition(pod, "DisruptionTarget") or {}
    why = disruption.get("message") or disruption.get("reason") or "it was deleted"
    return f"{meta.name(pod)} is gone: {why}"


def _code(pod: Object) -> int:
    """The exit code of a task that has ended."""
    ended = _state(pod).get("terminated") or {}
    status = pod.get("status") or {}
    if ended.get("reason") == "StartError" or "exitCode" not in ended:
        why = ended.get("message") or status.get("message") or status.get("reason") or "it was not started"
        raise _Lost(f"{meta.name(pod)}: {why}")
    if meta.is_deleting(pod):
        output.note(_fate(pod))
    elif ended.get("reason") not in {"Completed", "Error"}:
        said = ended.get("message") or status.get("message")
        click.echo(f"rota: {meta.name(pod)}: {ended.get('reason')}{f': {said}' if said else ''}", err=True)
    return int(ended["exitCode"])
