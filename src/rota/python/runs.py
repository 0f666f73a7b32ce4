"""A run of a pipeline: its status, its result, and operations on it.

A run belongs to the cluster; any program can attach to it by name.
"""

import asyncio
import base64
import contextlib
import hmac
import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from rota.api import errors as api_errors
from rota.api import meta
from rota.api.meta import Object
from rota.api.pipelines import diagrams, graphs, object_names
from rota.client import pods as podding
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client as ApiClient
from rota.client.verbs import Selection
from rota.python import notebook_html, result_download, task_runner
from rota.python.clients import Client
from rota.python.failures import Deleted, NoResult, RemoteTraceback, RunCancelled, StepFailed

R = TypeVar("R")

PIPELINES: Final = ("rota.dev", "v1alpha1", "pipelines")
RUNS: Final = ("rota.dev", "v1alpha1", "pipelineruns")
_STEP_RUNS: Final = ("rota.dev", "v1alpha1", "stepruns")
_SECRETS: Final = ("", "v1", "secrets")
#: Annotation with the steps that the result of a run is composed of, as JSON.
RESULT_ANNOTATION: Final = "rota.dev/result"
_OVER: Final = frozenset({"Succeeded", "Failed", "Cancelled"})
_WORKSPACE: Final = "rota-workspace"
_TRACEBACK: Final = "Traceback (most recent call last):"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """A step of a run, or one item of it, at one time."""

    step: str
    #: The item, for steps that run once for each.
    index: int | None
    #: `Waiting`, `Running`, `Succeeded`, `Failed`, `Skipped`, `Cached` or `Cancelled`.
    status: str
    node: str
    message: str


class Run(Generic[R]):
    """A run of a pipeline."""

    def __init__(self, client: Client, name: str) -> None:
        self._client: Final = client
        #: Its name in the cluster, by which `rota.Run(client, name)` and `rota pipeline get NAME` find it.
        self.name: Final = name

    @property
    def status(self) -> str:
        """`Pending`, `Running`, `Succeeded`, `Failed` or `Cancelled`."""
        return _phase(self._client.ask(self._get))

    def done(self) -> bool:
        """Whether it has finished."""
        return self.status in _OVER

    @property
    def steps(self) -> list[StepState]:
        """Its current steps, those that exist so far."""
        found = [
            StepState(
                step=one["spec"]["step"],
                index=one["spec"].get("index"),
                status=(one.get("status") or {}).get("phase") or "Waiting",
                node=(one.get("status") or {}).get("node") or "",
                message=(one.get("status") or {}).get("message") or "",
            )
            for one in self._client.ask(self._step_runs)
        ]
        return sorted(found, key=lambda one: (one.step, one.index or 0))

    def wait(self, timeout: float | None = None) -> str:
        """Wait until it has finished; returns its status. `NotDone` after the timeout."""
        return _phase(self._client.ask(self._over, timeout=timeout, patient=True))

    def result(self, timeout: float | None = None) -> R:
        """The result of the pipeline's function; a step's exception is raised as `StepFailed`, with its traceback."""
        run = self._client.ask(self._over, timeout=timeout, patient=True)
        if _phase(run) == "Cancelled":
            raise RunCancelled(f"{self.name} was cancelled", task=self.name)
        if _phase(run) == "Failed":
            raise self._failure(run)
        shape = meta.annotations(run).get(RESULT_ANNOTATION) or self._client.ask(
            lambda api: self._shape(api, run), patient=True
        )
        if not shape:
            raise NoResult(
                f"{self.name} was not begun from Python, and so has no result; see its steps", task=self.name
            )
        wanted = json.loads(shape)
        key = self._client.ask(lambda api: self._key(api, run), patient=True)
        texts = self._client.ask(lambda api: self._texts(api, _mentioned(wanted), key, meta.uid(run)), patient=True)
        found: R = _put_together(wanted, texts)
        return found

    def graph(self) -> str:
        """Its steps with their states and dependencies."""
        spec, states = self._drawn()
        return "\n".join(diagrams.text(spec, states))

    def logs(self, step: str = "") -> str:
        """The output of all steps, or of one."""
        return self._client.ask(lambda api: self._logs(api, step))

    def cancel(self) -> None:
        """Cancel it, with its running steps."""
        self._client.ask(lambda api: self._changed(api, {"cancel": True}))

    def retry(self) -> None:
        """Repeat what did not succeed."""
        run = self._client.ask(self._get)
        number = (run["spec"].get("retry") or 0) + 1
        self._client.ask(lambda api: self._changed(api, {"retry": number, "cancel": None}))

    def __await__(self) -> Generator[Any, None, R]:
        """Await its result in an event loop."""
        return asyncio.to_thread(self.result).__await__()

    def __repr__(self) -> str:
        return f"<rota.Run {self.name}>"

    def _repr_html_(self) -> str:
        rows = [
            (one.step, "" if one.index is None else one.index, one.status, one.node, one.message) for one in self.steps
        ]
        spec, states = self._drawn()
        head = ("step", "item", "status", "node", "message")
        return notebook_html.table(f"Run {self.name}: {self.status}", head, rows) + diagrams.svg(spec, states)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _get(self, api: ApiClient) -> Object:
        try:
            return await api.get(RUNS, self.name, namespace=self._client.namespace)
        except api_errors.NotFound:
            raise Deleted(f"there is no run {self.name} in {self._client.namespace}", task=self.name) from None

    async def _shape(self, api: ApiClient, run: Object) -> str:
        """How the result of a run is composed that was started elsewhere, such as by a schedule: from its pipeline."""
        try:
            found = await api.get(PIPELINES, run["spec"].get("pipeline") or "-", namespace=self._client.namespace)
        except api_errors.NotFound:
            return ""
        return meta.annotations(found).get(RESULT_ANNOTATION) or ""

    async def _step_runs(self, api: ApiClient, step: str = "") -> Sequence[Object]:
        labels = f"{object_names.RUN_LABEL}={object_names.label(self.name)}" + (
            f",{object_names.STEP_LABEL}={step}" if step else ""
        )
        return (await api.list(_STEP_RUNS, namespace=self._client.namespace, selection=Selection(labels=labels))).items

    async def _over(self, api: ApiClient) -> Object:
        """The run when it has finished; a broken watch is resumed."""
        selection = Selection(fields=f"metadata.name={self.name}")
        while True:
            run = await self._get(api)
            if _phase(run) in _OVER:
                return run
            version = meta.metadata(run)["resourceVersion"]
            watching = api.watch(RUNS, namespace=self._client.namespace, selection=selection, resource_version=version)
            with contextlib.suppress(api_errors.Expired, api_errors.Gone, TransportError):
                async with watching as events:
                    async for event in events:
                        if _phase(event.object) in _OVER:
                            break

    async def _key(self, api: ApiClient, run: Object) -> str:
        """The key with which the steps of a run sign their outputs."""
        name = (run.get("status") or {}).get("signingSecret")
        if not name:
            raise NoResult(
                f"the steps of {self.name} did not sign their results, so it is not known where these are from; "
                "create the pipeline again with this version of Rota and run it again",
                task=self.name,
            )
        try:
            found = await api.get(_SECRETS, name, namespace=self._client.namespace)
        except (api_errors.NotFound, api_errors.Forbidden) as problem:
            raise NoResult(
                f"the results of {self.name} cannot be verified, because their key cannot be read: {problem}",
                task=self.name,
            ) from None
        if found.get("type") != object_names.SIGNING_TYPE:
            raise NoResult(f"the Secret {name} that {self.name} refers to has no key of a pipeline", task=self.name)
        return base64.b64decode(found["data"]["key"]).decode()

    async def _texts(self, api: ApiClient, wanted: Mapping[str, str], key: str, uid: str) -> dict[str, list[str]]:
        """The results of steps as texts, by name, items in order; `NoResult` if a step did not write one of them."""
        found: dict[str, list[str]] = {}
        for step in wanted:
            runs = sorted(await self._step_runs(api, step), key=lambda one: one["spec"].get("index") or 0)
            left = [one for one in runs if _result_of(one) is not None]
            for one in left:
                if not _is_authentic(one, step, key=key, uid=uid):
                    raise NoResult(
                        f"the output of {meta.name(one)} was not written by step {step} of {self.name}: its signature "
                        "is wrong; look who may change step runs and the status of pods in this namespace",
                        task=self.name,
                    )
            found[step] = [await self._text(api, one) for one in left]
        return found

    async def _text(self, api: ApiClient, step_run: Object) -> str:
        node = (step_run.get("status") or {}).get("node") or ""
        text = _seen_from_outside(_result_of(step_run) or "", step_run)
        try:
            return await result_download.text_of(text, api, namespace=self._client.namespace, node=node)
        except task_runner.Missing as problem:
            raise NoResult(f"the result of {meta.name(step_run)} cannot be had: {problem}", task=self.name) from None

    async def _changed(self, api: ApiClient, spec: Mapping[str, Any]) -> None:
        await api.patch(RUNS, self.name, {"spec": spec}, namespace=self._client.namespace)

    async def _logs(self, api: ApiClient, step: str) -> str:
        labels = f"{object_names.RUN_LABEL}={object_names.label(self.name)}" + (
            f",{object_names.STEP_LABEL}={step}" if step else ""
        )
        pods = await api.list(PODS, namespace=self._client.namespace, selection=Selection(labels=labels))
        written: list[bytes] = []
        for pod in sorted(pods.items, key=lambda one: meta.metadata(one).get("creationTimestamp") or ""):
            with contextlib.suppress(api_errors.BadRequest, api_errors.NotFound):
                async with podding.logs(api, meta.name(pod), namespace=self._client.namespace) as chunks:
                    written += [chunk async for chunk in chunks]
        return b"".join(written).decode(errors="replace")

    def _drawn(self) -> tuple[graphs.Graph, dict[str, str]]:
        run = self._client.ask(self._get)
        spec = (run.get("status") or {}).get("spec") or run["spec"].get("pipelineSpec") or {}
        phases: dict[str, list[str]] = {}
        for one in self.steps:
            phases.setdefault(one.step, []).append(one.status)
        known = graphs.graph([*(spec.get("steps") or ()), *(spec.get("onExit") or ())])
        return known, {step: diagrams.outcome(states) for step, states in phases.items()}

    def _failure(self, run: Object) -> StepFailed:
        """The exception of a failed run: its first failed step, with that step's record."""
        failed = [one for one in self.steps if one.status == "Failed"]
        if not failed:
            why = (run.get("status") or {}).get("message") or "it failed"
            return StepFailed(f"{self.name}: {why}", task=self.name)
        first = failed[0]
        others = f" ({len(failed) - 1} more failed)" if len(failed) > 1 else ""
        message = f"step {first.step} of {self.name} failed{others}: {first.message}"
        problem = StepFailed(message, step=first.step, task=self.name, node=first.node)
        _, found, text = self.logs(first.step).rpartition(_TRACEBACK)
        if found:
            problem.__cause__ = RemoteTraceback(found + text)
        return problem


def _phase(run: Object) -> str:
    """The phase; that of the next attempt if a retry is requested and the controller has not seen it."""
    status = run.get("status") or {}
    if (run["spec"].get("retry") or 0) > (status.get("observedRetry") or 0):
        return "Pending"
    return str(status.get("phase") or "Pending")


def _result_of(step_run: Object) -> str | None:
    found = ((step_run.get("status") or {}).get("outputs") or {}).get("result")
    return None if found is None else str(found)


def _is_authentic(step_run: Object, step: str, *, key: str, uid: str) -> bool:
    """Whether a step run's result was written by this step, in this run or one whose result it reuses."""
    spec, outputs = step_run["spec"], step_run["status"]["outputs"]
    scope = task_runner.ANY_RUN if spec.get("cacheKey") else uid
    index = "" if spec.get("index") is None else str(spec["index"])
    expected = task_runner.sign_output(key, (scope, step, "result"), index, outputs["result"])
    return hmac.compare_digest(expected.encode(), str(outputs.get("signature") or "").encode())


def _seen_from_outside(text: str, step_run: Object) -> str:
    """A text that refers to a file in the run's shared folder, with the path on its machine."""
    place = task_runner.place_of(text)
    pod = ((step_run.get("spec") or {}).get("template") or {}).get("spec") or {}
    folder = next((one["hostPath"]["path"] for one in pod.get("volumes") or () if one.get("name") == _WORKSPACE), None)
    if place is None or folder is None:
        return text
    mounts = [mount for one in pod.get("containers") or () for mount in one.get("volumeMounts") or ()]
    inside = next((one["mountPath"] for one in mounts if one.get("name") == _WORKSPACE), "")
    return text.replace(f":{inside}/", f":{folder}/", 1)


# --- results --------------------------------------------------------------------------------------------------------


def _mentioned(shape: Any) -> dict[str, str]:
    """The steps that a result is composed of, with how their values are parsed."""
    if "step" in shape:
        return {shape["step"]: shape["kind"]}
    found: dict[str, str] = {}
    for part in shape.get("list") or shape.get("tuple") or (shape.get("dict") or {}).values():
        found |= _mentioned(part)
    return found


def _put_together(shape: Any, texts: Mapping[str, list[str]]) -> Any:
    if "step" in shape:
        values = [task_runner.read(text) for text in texts[shape["step"]]]
        if shape["kind"] == "values":
            return values
        return values[0] if values else None  # it was skipped
    if "dict" in shape:
        return {name: _put_together(part, texts) for name, part in shape["dict"].items()}
    if "list" in shape:
        return [_put_together(part, texts) for part in shape["list"]]
    if "tuple" in shape:
        return tuple(_put_together(part, texts) for part in shape["tuple"])
    return shape["value"]
