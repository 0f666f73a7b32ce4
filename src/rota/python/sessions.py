"""Submits tasks, watches them, and sets the results of their futures.

A session is the part of a client that runs in its event loop. Its tasks share a label, so two watches (Jobs, pods)
cover all of them. A success is known from the pod, before the Job's status; a failure only from the Job, because a
retry may follow. Each result is reported once.
"""

import asyncio
import contextlib
import functools
import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from rota.api import errors as api_errors
from rota.api import meta, times
from rota.api.meta import Object
from rota.client import client_factory, wire
from rota.client import pods as podding
from rota.client.endpoints import Endpoint
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Propagation, Selection, Settings
from rota.kit import backoff, logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.python import manifests, outcomes, result_download, task_runner
from rota.python.failures import (
    Deleted,
    NoResult,
    NotReachable,
    Refused,
    TaskLost,
)
from rota.python.futures import Future
from rota.python.manifests import (
    FETCHED_S,
    INDEX_LABEL,
    JOB_LABEL,
    JOBS,
    KEPT_ANNOTATION,
    SECRETS,
    SERVICES,
    SESSION_LABEL,
    UNTIL_FETCHED,
)
from rota.python.options import CONTAINER, Options
from rota.python.outcomes import Outcome, Raised, Returned
from rota.python.serialization import Packed

#: Concurrent submissions.
_AT_ONCE: Final = 16
#: How long `close` waits for submissions in progress.
_LAST_S: Final = 10.0
#: How long all tasks of a client may be pending before a message says so.
_PATIENCE_S: Final = 10.0
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
#: Retry interval while the server is away.
_AGAIN: Final = backoff.Policy(initial_s=0.2, cap_s=5.0)
_log: Final = logs.get("rota")
_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class _Entry:
    """An unfinished task."""

    future: Future[Any]
    key: str
    #: The file of a call that was too large for the store; deleted at the end.
    file: str = ""
    #: Whether its Job may be deleted once the result is read, and the age of the Job when it was found again.
    until_fetched: bool = False
    age_s: float = 0.0
    settling: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call to submit."""

    future: Future[Any]
    packed: Packed
    options: Options
    #: The file that contains it, if it is too large for the store.
    file: str = ""
    key: str = field(default_factory=manifests.fresh_key)
    #: The shape of the lease that this is the program of; empty for a call of a user.
    lease: str = ""


class Session:
    """A client's tasks, in its event loop."""

    def __init__(self, endpoint: Endpoint, *, namespace: str, results: str, name: str, clock: Clock, rng: Rng) -> None:
        self.name: Final = name
        self.namespace: Final = namespace
        self.endpoint: Final = endpoint
        self._results: Final = results
        self._clock: Final = clock
        self._rng: Final = rng
        self._exits: Final = contextlib.AsyncExitStack()
        self._entries: Final[dict[str, _Entry]] = {}
        self._followed: Final[dict[str, asyncio.Task[None]]] = {}
        self._places: Final = asyncio.Semaphore(_AT_ONCE)
        #: Deletions of finished Jobs are limited, so that they do not delay other requests.
        self._expiring: Final = asyncio.Semaphore(2)
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._sending: Final[set[asyncio.Task[Any]]] = set()
        self._impatient: asyncio.Task[None] | None = None
        #: Begins the watches before the first submission, which then need not wait for them.
        self._first_follow: asyncio.Task[None] | None = None
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The API client."""
        if self._client is None:
            raise RuntimeError("this client is closed; make another one")
        return self._client

    async def open(self) -> None:
        """Connect, and check that the server answers."""
        made = client_factory.to_server(
            self.endpoint, clock=self._clock, rng=self._rng, settings=Settings(user_agent="rota-python")
        )
        self._client = await self._exits.enter_async_context(made)
        with self.telling():
            await self._client.with_settings(retry=False).request("GET", "/version")
        self._first_follow = asyncio.create_task(self._follow(self.name))

    async def close(self) -> None:
        """Disconnect; tasks continue. Submissions in progress are awaited."""
        if self._sending:
            await asyncio.wait(self._sending)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_S)
        others = [one for one in (self._impatient, self._first_follow) if one is not None]
        going = [*self._followed.values(), *self._tasks, *others]
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)
        self._client = None
        await self._exits.aclose()
        for name, entry in self._entries.items():
            entry.future.settle(problem=RuntimeError(f"the client is closed; client.future({name!r}) finds it again"))
        self._entries.clear()

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Turn errors of the server and of the connection into messages with a remedy."""
        try:
            yield
        except TransportError as problem:
            raise NotReachable(f"{self.endpoint.server} does not answer: {problem}", "does `rota up` run?") from problem
        except api_errors.ApiError as problem:
            raise Refused(" ".join(problem.message.split())) from problem

    async def patiently(self, work: Callable[[Client], Coroutine[Any, Any, _T]]) -> _T:
        """Repeat an operation that only reads while the server is away or overloaded."""
        pauses = backoff.Backoff(_AGAIN, self._rng)
        while True:
            try:
                return await work(self.client)
            except (TransportError, api_errors.ServiceUnavailable, api_errors.TooManyRequests) as problem:
                _log.debug("the server is asked again", error=problem)
                await self._clock.sleep(pauses.next())

    # --- submission ---------------------------------------------------------------------------------------------------

    async def submit(self, call: Call) -> None:
        """Submit a call; returns when the cluster has stored it."""
        task = asyncio.current_task()
        assert task is not None, "this runs in a loop"
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        name = call.future.name
        kept = call.options.keep is None
        self._entries[name] = _Entry(future=call.future, key=call.key, file=call.file, until_fetched=kept)
        try:
            async with self._places:
                if call.future.cancelled():
                    return
                with self.telling():
                    await self._follow(self.name)
                    await self._send(call)
        except asyncio.CancelledError:  # by Ctrl-C: the server may have stored part of it, or all
            self._begin(self._take_back(name))
            raise
        except BaseException:
            self._forget(name)
            raise
        if call.future.cancelled():
            await self.delete(name)

    async def _send(self, call: Call) -> None:
        name, where = call.future.name, self.namespace
        secret = manifests.secret(
            name,
            where,
            call.packed,
            call.options,
            session=self.name,
            key=call.key,
            file=call.file,
            results=self._results,
        )
        parts = 0 if call.file else len(call.packed.parts())
        # a container usually runs as root, so it mounts the results folder of root
        folders = {self._results.replace("{uid}", "0"), *({str(Path(call.file).parent)} if call.file else ())}
        job = manifests.job(name, where, call.packed, call.options, session=self.name, parts=parts, folders=folders)
        if call.lease:
            job = manifests.lease(job, call.lease)
        await self.client.create(SECRETS, secret)
        try:
            made = await self.client.create(JOBS, job)
        except BaseException:
            self._begin(self._discard(SECRETS, name))
            raise
        self._begin(self._belong(name, made))
        if call.options.gang:
            await self.client.create(SERVICES, manifests.service(made))

    async def _belong(self, name: str, made: Object) -> None:
        """Make the Job the owner of its Secret."""
        with contextlib.suppress(api_errors.ApiError, TransportError):
            await self.client.patch(SECRETS, name, manifests.owned(made), namespace=self.namespace)

    async def _discard(self, target: tuple[str, str, str], name: str, **how: Any) -> None:
        with contextlib.suppress(api_errors.ApiError, TransportError):
            await self.client.delete(target, name, namespace=self.namespace, **how)

    async def delete(self, name: str) -> None:
        """Delete a task with its pods and its Secret; running processes are killed."""
        self._forget(name)
        await self._discard(JOBS, name, propagation=Propagation.BACKGROUND)

    async def release(self, name: str) -> None:
        """Delete a task, and its result if that is a file that is visible here."""
        await self.delete(name)
        folder = Path(task_runner.own_path(self._results))
        for file in await asyncio.to_thread(lambda: list(folder.glob(f"{name}-*"))):
            file.unlink(missing_ok=True)

    async def _take_back(self, name: str) -> None:
        await self.delete(name)
        await self._discard(SECRETS, name)

    def _forget(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        if entry is not None and entry.file:
            Path(entry.file).unlink(missing_ok=True)

    def cancel(self, name: str) -> None:
        """Start the deletion of a task."""
        self._begin(self.delete(name))

    # --- watches ------------------------------------------------------------------------------------------------------

    async def adopt(self, name: str, make: Callable[[str], Future[Any]]) -> Future[Any]:
        """The future of a task that was submitted before, perhaps by another program."""
        if name in self._entries:
            return self._entries[name].future
        with self.telling():
            try:
                job = await self.client.get(JOBS, name, namespace=self.namespace)
                secret = await self.client.get(SECRETS, name, namespace=self.namespace)
            except api_errors.NotFound:
                raise Deleted(f"there is no task {name} in {self.namespace}", task=name) from None
            session = meta.labels(job).get(SESSION_LABEL)
            if not session:
                raise Deleted(f"{name} is no task of Python's", task=name)
            future = make(meta.annotations(job).get(manifests.FUNCTION_ANNOTATION) or name)
            self._entries[name] = _Entry(
                future=future,
                key=result_download.decoded(secret, "key"),
                until_fetched=meta.annotations(job).get(KEPT_ANNOTATION) == UNTIL_FETCHED,
                age_s=max(0.0, self._clock.now() - times.parse(meta.metadata(job)["creationTimestamp"])),
            )
            await self._follow(session)
            self._job_changed(Key(self.namespace, name), None, job)
            for pod in await self._pods_of(name):
                self._pod_changed(Key(self.namespace, meta.name(pod)), None, pod)
        return future

    async def _follow(self, session: str) -> None:
        """Watch all tasks of the session."""
        first = self._first_follow
        if first is not None and first is not asyncio.current_task():
            await asyncio.wait((first,))
            self._first_follow = None
            if not first.cancelled() and first.exception() is None and session in self._followed:
                return
        if session not in self._followed:
            # missing permissions are reported here, instead of waiting for ever
            await asyncio.gather(
                *(self.client.page(target, namespace=self.namespace, limit=1) for target in (PODS, JOBS))
            )
        if session not in self._followed:
            begun = asyncio.Event()
            following = asyncio.create_task(self._following(session, begun))
            following.add_done_callback(functools.partial(self._not_followed, session, begun))
            self._followed[session] = following
            await begun.wait()
            if following.done():
                following.result()

    async def _following(self, session: str, begun: asyncio.Event) -> None:
        selection = Selection(labels=f"{SESSION_LABEL}={session}")
        async with asyncio.TaskGroup() as group:
            informers = []
            for target, handler in ((PODS, self._pod_changed), (JOBS, self._job_changed)):
                source = Source(client=self.client, target=target, namespace=self.namespace, selection=selection)
                informer = Informer(source, decode=wire.decode_object, clock=self._clock, rng=self._rng)
                informer.add_handler(handler)
                group.create_task(informer.run())
                informers.append(informer)
            for informer in informers:
                await informer.wait_synced()
            begun.set()

    def _not_followed(self, session: str, begun: asyncio.Event, following: "asyncio.Task[None]") -> None:
        """Fail the futures if the watch cannot continue; the next submission starts a new one."""
        self._followed.pop(session, None)
        begun.set()
        problem = None if following.cancelled() else following.exception()
        if problem is not None:
            for name, entry in list(self._entries.items()):
                self._forget(name)
                entry.future.settle(problem=problem)

    def _pod_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        entry = self._entries.get(meta.labels(new or {}).get(JOB_LABEL, ""))
        if entry is None or new is None:
            return
        phase = (new.get("status") or {}).get("phase")
        node = (new.get("spec") or {}).get("nodeName") or ""
        if phase not in _FINISHED:
            told = "running" if phase == "Running" else "pending"
            why = "" if phase == "Running" else outcomes.why_waiting(new)
            address = (new.get("status") or {}).get("podIP") or ""
            entry.future.progressed(phase=told, node=node, pod=meta.name(new), why=why, address=address)
            if why and self._impatient is None:
                self._impatient = asyncio.create_task(self._waiting())
        elif phase == "Succeeded" and INDEX_LABEL not in meta.labels(new):  # of a gang, all have to end
            entry.future.progressed(phase="running", node=node, pod=meta.name(new))
            self._settle(entry, lambda: self._outcome(entry, new))

    async def _waiting(self) -> None:
        """Log once what the tasks wait for, if none of this client runs: a caller of `result()` sees nothing else."""
        while self._entries:
            await self._clock.sleep(_PATIENCE_S)
            waiting = [entry.future for entry in self._entries.values() if entry.future.why]
            if waiting and all(entry.future.status == "pending" for entry in self._entries.values()):
                first, others = waiting[0], len(waiting) - 1
                who = f"{first.name} and {others} more still wait" if others else f"{first.name} still waits"
                # Everything is in the message, because without configured logging Python prints no fields.
                _log.warning(
                    f"{who}: {first.why.rstrip('.')}; 'rota explain pod {first.pod} -n {self.namespace}' tells more"
                )
                return
        self._impatient = None

    def _job_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        entry = self._entries.get(key.name)
        if entry is None:
            return
        if new is None:
            gone = Deleted(f"{key.name} was deleted", task=key.name, node=entry.future.node)
            self._settle(entry, lambda: _at_once(gone))
        elif meta.is_condition_true(new, "Complete") or meta.is_condition_true(new, "Failed"):
            self._settle(entry, lambda: self._last_outcome(entry, new))

    async def _pods_of(self, job: str) -> list[Object]:
        """The attempts of a task, latest last."""
        found = await self.client.list(PODS, namespace=self.namespace, selection=Selection(labels=f"{JOB_LABEL}={job}"))
        return sorted(found.items, key=lambda one: meta.metadata(one).get("creationTimestamp") or "")

    # --- results ------------------------------------------------------------------------------------------------------

    def _settle(self, entry: _Entry, find: Callable[[], Coroutine[Any, Any, Outcome]]) -> None:
        if not entry.settling:
            entry.settling = True
            self._begin(self._settled(entry, find))

    async def _settled(self, entry: _Entry, find: Callable[[], Coroutine[Any, Any, Outcome]]) -> None:
        """Read the result of a task, and set its future; callbacks run in another thread: they may take long."""
        future = entry.future
        value: Any = None
        problem: BaseException | None = None
        outcome: Outcome | None = None
        try:
            outcome = await find()
            if isinstance(outcome, TaskLost):
                problem = outcome
            else:
                text = await result_download.text_of(
                    outcome.text, self.client, namespace=self.namespace, node=future.node
                )
                value, problem = await asyncio.to_thread(_read, outcome, text, future.name)
        except (api_errors.ApiError, TransportError, task_runner.Missing) as error:
            problem = NoResult(f"the result of {future.name} cannot be had: {error}", task=future.name)
        except Exception as error:  # noqa: BLE001 - callers that wait for the future get every error
            problem = error
        self._forget(future.name)
        await asyncio.to_thread(future.settle, value, problem)
        if entry.until_fetched and isinstance(outcome, Returned | Raised) and not isinstance(problem, NoResult):
            await self._expire(future.name, after_s=entry.age_s + FETCHED_S)

    async def _expire(self, name: str, *, after_s: float) -> None:
        """Shorten the time to live of a Job whose result was read.

        Its logs stay available for a while. If this fails, the Job is deleted later.
        """
        change = {"spec": {"ttlSecondsAfterFinished": round(after_s)}}
        async with self._expiring:
            with contextlib.suppress(api_errors.ApiError, TransportError):
                await self.client.with_settings(retry=False).patch(JOBS, name, change, namespace=self.namespace)

    async def _outcome(self, entry: _Entry, pod: Object) -> Outcome:
        return outcomes.of_pod(pod, task=entry.future.name, key=entry.key)

    async def _last_outcome(self, entry: _Entry, job: Object) -> Outcome:
        """The result of a task whose Job has finished."""
        future = entry.future
        tries = [one for one in await self._pods_of(future.name) if _phase(one) in _FINISHED]
        if meta.is_condition_true(job, "Failed"):  # of a gang, the process that failed tells why
            tries = [one for one in tries if _phase(one) == "Failed"] or tries
        tries.sort(key=lambda one: meta.labels(one).get(INDEX_LABEL) == "0")
        won = [one for one in tries if _phase(one) == "Succeeded"]
        if tries:
            last = (won or tries)[-1]
            future.progressed(phase="running", node=(last.get("spec") or {}).get("nodeName") or "", pod=meta.name(last))
            return outcomes.of_pod(last, task=future.name, key=entry.key)
        failed = meta.condition(job, "Failed") or {}
        why = failed.get("message") or failed.get("reason") or "its pods are gone"
        return TaskLost(f"{future.name} failed: {why}", task=future.name)

    # --- logs ---------------------------------------------------------------------------------------------------------

    async def logs(self, name: str, pod: str) -> str:
        """The output of a task's latest attempt."""
        with self.telling():
            if not pod:
                tries = await self._pods_of(name)
                if not tries:
                    return ""
                pod = meta.name(tries[-1])
            written: list[bytes] = []
            try:
                async with podding.logs(self.client, pod, namespace=self.namespace, container=CONTAINER) as chunks:
                    written = [chunk async for chunk in chunks]
            except (api_errors.BadRequest, api_errors.NotFound):
                return ""  # it has not started, or is gone
            return b"".join(written).decode(errors="replace")

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _at_once(outcome: Outcome) -> Outcome:
    return outcome


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _read(outcome: Returned | Raised, text: str, name: str) -> tuple[Any, BaseException | None]:
    """The value or exception of a task. Unpickles, which runs code; the task's signature was checked before."""
    try:
        if isinstance(outcome, Returned):
            return task_runner.read(text), None
        return None, outcomes.raised(json.loads(text))
    except Exception as problem:  # noqa: BLE001 - unpickling runs what it likes
        lost = NoResult(f"what {name} left cannot be read here: {type(problem).__name__}: {problem}", task=name)
        lost.__cause__ = problem
        return None, lost
