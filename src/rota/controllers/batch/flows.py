"""Runs JobFlows: starts their Jobs in the order of their dependencies, and sums up how they are.

`flow_plan` decides; this module asks probed ports, creates and deletes Jobs, and writes statuses. A flow that is over
is left alone, so that Jobs which its retain policy deletes are not started again.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

from rota.api import errors, meta
from rota.api.batch import kinds
from rota.api.meta import Object
from rota.client.informers.cache import Key
from rota.client.verbs import Client, Propagation
from rota.controllers.batch import flow_plan
from rota.controllers.batch.flow_plan import Question
from rota.controllers.batch.jobs import COMPONENT
from rota.controllers.controller_ref_manager import OwnerKind
from rota.controllers.owned_reconciler import OwnedReconciler
from rota.controllers.pod_control import PODS, is_end_of_namespace
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

KIND: Final = OwnerKind(api_version=f"{kinds.FLOW}/v1alpha1", kind="JobFlow", target=kinds.JOB_FLOWS)
_ANSWER_S: Final = 1.0
_ASK_AGAIN_S: Final = 2.0
_OK: Final = range(200, 400)


class JobFlowController:
    """Manages all JobFlows, and lists on each JobTemplate the Jobs that were made of it."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._home: Final = OwnedReconciler[str](
            client,
            KIND,
            self._sync,
            name="batch flows",
            component=COMPONENT,
            clock=clock,
            rng=rng,
            metrics=metrics,
            left=self._forget,
            beside=self._list_jobs,
        )
        self._recorder: Final = self._home.recorder
        self._jobs: Final = self._home.own(kinds.JOBS, also=self._job_changed)
        self._templates: Final = self._home.follow(kinds.JOB_TEMPLATES, self._template_changed)
        counters = (metrics or client.settings.metrics or Metrics("batch")).beside("batch", prefix="volcano_")
        named = ("jobflow_name",)
        self._ends: Final = {
            flow_plan.SUCCEED: counters.counter("jobflow_succeed_phase_count", "JobFlows that succeeded", named),
            flow_plan.FAILED: counters.counter("jobflow_failed_phase_count", "JobFlows that failed", named),
        }

    async def run(self) -> None:
        """Run flows until cancelled."""
        await self._home.run()

    def _forget(self, _: Key, flow: Object) -> None:
        """A flow is gone."""
        for counter in self._ends.values():
            counter.remove(meta.name(flow))

    def _template_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        for owner, flow in self._home.owners.items():
            parts = (flow.get("spec") or {}).get("flows") or ()
            if owner.namespace == key.namespace and any(one["name"] == key.name for one in parts):
                self._home.look_at(owner)
        if new is not None:
            self._home.look_at(f"{key.namespace}.{key.name}")

    def _job_changed(self, _: Key, old: Object | None, new: Object | None) -> None:
        if (old is None) is not (new is None):
            made_of = meta.labels(new or old or {}).get(kinds.CREATED_BY_TEMPLATE)
            if made_of:
                self._home.look_at(made_of)

    async def _sync(self, flow: Object) -> float | None:
        phase = ((flow.get("status") or {}).get("state") or {}).get("phase") or ""
        jobs: dict[str, Object] = {meta.name(one): one for one in self._jobs.owned_by(flow)}
        if phase in flow_plan.OVER or meta.is_deleting(flow):
            if phase == flow_plan.SUCCEED and (flow.get("spec") or {}).get("jobRetainPolicy") == "delete":
                for one in jobs.values():
                    await self._delete(flow, one)
            return None
        missing: list[str] = []
        asking = False
        for one in flow_plan.startable(flow, jobs):
            template = self._templates.get(one["name"], meta.namespace(flow))
            if template is None:
                missing.append(one["name"])
            elif await self._answered(flow, one, jobs):
                made = await self._create(flow, flow_plan.job(flow, one, template))
                if made is not None:
                    jobs[meta.name(made)] = made
            else:
                asking = True
        status = flow_plan.status(flow, jobs, missing=missing)
        await self._write(flow, status)
        ended = self._ends.get(status["state"]["phase"])
        if ended is not None:
            ended.labels(meta.name(flow)).inc()
        return _ASK_AGAIN_S if asking else None

    async def _answered(self, flow: Object, one: Mapping[str, Any], jobs: Mapping[str, Object]) -> bool:
        """Whether every probed pod answers."""
        for question in flow_plan.questions(flow, one, jobs):
            addresses = await self._addresses(meta.namespace(flow), question)
            if not addresses or not all(
                await asyncio.gather(*(answers(address, question, clock=self._clock) for address in addresses))
            ):
                return False
        return True

    async def _addresses(self, namespace: str, question: Question) -> list[str]:
        """The addresses of the pods that are asked; none if some have not got one yet."""
        found = [
            one
            for one in (await self._client.list(PODS, namespace=namespace)).items
            if meta.labels(one).get(kinds.JOB_NAME) == question.job
            and (not question.task or meta.labels(one).get(kinds.TASK_SPEC) == question.task)
        ]
        addresses = [str((one.get("status") or {}).get("podIP") or "") for one in found]
        return addresses if all(addresses) else []

    async def _create(self, flow: Object, wanted: Object) -> Object | None:
        key = Key(meta.namespace(wanted), meta.name(wanted))
        self._jobs.expectations.expect(meta.uid(flow), key)
        try:
            made = await self._client.create(kinds.JOBS, wanted)
        except errors.ApiError as problem:
            self._jobs.expectations.drop(key)
            if is_end_of_namespace(problem) or isinstance(problem, errors.AlreadyExists):
                return None
            self._recorder.event(flow, "Warning", "FailedCreate", f"Error creating job {key.name}: {problem}")
            raise
        except BaseException:
            self._jobs.expectations.drop(key)
            raise
        self._jobs.expectations.confirm(key, made)
        self._recorder.event(flow, "Normal", "Created", f"create a job named {key.name}!")
        return made

    async def _delete(self, flow: Object, job: Object) -> None:
        if meta.is_deleting(job):
            return
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(
                kinds.JOBS,
                meta.name(job),
                namespace=meta.namespace(flow),
                uid=meta.uid(job),
                propagation=Propagation.BACKGROUND,
            )

    async def _write(self, flow: Object, status: Mapping[str, Any]) -> None:
        if status == (flow.get("status") or {}):
            return
        key = Key(meta.namespace(flow), meta.name(flow))
        self._home.own_writes.expect(meta.uid(flow), key, of=flow)
        try:
            written = await self._client.update(kinds.JOB_FLOWS, {**flow, "status": dict(status)}, subresource="status")
        except BaseException:
            self._home.own_writes.drop(key)
            raise
        self._home.own_writes.confirm(key, written)

    async def _list_jobs(self, qualified: str) -> float | None:
        """Write on a template which Jobs were made of it."""
        space, _, name = qualified.partition(".")
        template = self._templates.get(name, space)
        if template is None:
            return None
        made = sorted(
            meta.name(one)
            for key, one in self._jobs.cache.items()
            if key.namespace == space and meta.labels(one).get(kinds.CREATED_BY_TEMPLATE) == qualified
        )
        if ((template.get("status") or {}).get("jobDependsOnList") or []) != made:
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                status = {"jobDependsOnList": made}
                await self._client.update(kinds.JOB_TEMPLATES, {**template, "status": status}, subresource="status")
        return None


async def answers(address: str, question: Question, *, clock: Clock) -> bool:
    """Whether a port accepts a connection, or an HTTP server answers with success."""
    try:
        return await clock.wait_for(_ask(address, question), _ANSWER_S)
    except (OSError, TimeoutError, ValueError):
        return False


async def _ask(address: str, question: Question) -> bool:
    reader, writer = await asyncio.open_connection(address, question.port)
    try:
        if question.path is None:
            return True
        lines = [f"GET {question.path} HTTP/1.1", f"Host: {address}:{question.port}", "Connection: close"]
        if question.header is not None:
            lines.append(": ".join(question.header))
        if not all(line.isprintable() for line in lines):
            raise ValueError("a path or header with control characters could be another request")
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await writer.drain()
        first = (await reader.readline()).split()
        return len(first) > 1 and int(first[1]) in _OK
    finally:
        writer.close()
