"""`@rota.pipeline`: a function whose calls of tasks become steps of a Pipeline object, as YAML would define it.

    @rota.pipeline
    def report(city: str = "Oslo") -> int:
        return total(count.each(pages(city)))

    report("Lima")              # locally, one task after the other: for tests
    report.run(city="Lima")     # in the cluster: a run
    print(report.to_yaml())     # the manifest

The function is called when the pipeline is built, not when it runs; it defines the steps.
"""

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack, overload

import yaml

from rota.api import fields, meta
from rota.api import names as api_names
from rota.api.pipelines import diagrams, graphs, object_names, pipeline_validation
from rota.client.verbs import Client as ApiClient
from rota.python import clients, manifests, parameters, pipeline_builder, serialization, task_runner
from rota.python.clients import Client
from rota.python.parameters import Parameter
from rota.python.pipeline_builder import PipelineError, Plan
from rota.python.promises import Promise
from rota.python.runs import PIPELINES, RESULT_ANNOTATION, RUNS, Run

P = ParamSpec("P")
R = TypeVar("R")

_VERSION: Final = "rota.dev/v1alpha1"
_POLICIES: Final = {"fail-fast": "FailFast", "continue": "Continue"}
#: The number of errors that are reported at once.
_FAULTS: Final = 5


class PipelineOptions(TypedDict, total=False):
    """The options of a pipeline, all of them optional."""

    #: Its name in the cluster; the function's name by default.
    name: str
    #: Whether its steps share a folder, for values that are too large for the store. They then run on one node.
    workspace: bool
    #: How many steps of a run may run at a time.
    parallelism: int
    #: Seconds that a run may take.
    timeout: float
    #: A cron schedule: "0 6 * * *".
    schedule: str
    #: The time zone of its schedule: "Europe/Oslo".
    time_zone: str
    #: Whether the first failure ends a run, or independent steps continue.
    failure_policy: Literal["fail-fast", "continue"]
    #: How many finished runs are kept.
    history_limit: int
    #: Its labels.
    labels: Mapping[str, str]


class Pipeline(Generic[P, R]):
    """A function that defines a pipeline."""

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R], settings: PipelineOptions) -> None:
        functools.update_wrapper(self, function)
        self.function: Final = function
        self._settings: Final = settings
        stem = str(settings.get("name") or function.__name__.replace("_", "-").lower())
        if why := api_names.check_dns1123_label(stem):
            raise PipelineError(f"{stem!r} cannot be the name of a pipeline: {why[0]}", "give it another with name=...")
        self.name: Final = stem
        self._parameters: Final = parameters.of(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it locally, each task as an ordinary call; inside another pipeline, add its steps to that one."""
        return self.function(*args, **kwargs)

    # --- definition ---------------------------------------------------------------------------------------------------

    def manifest(self) -> dict[str, Any]:
        """The Pipeline object."""
        settings = self._settings
        plan = Plan(self.name, workspace=bool(settings.get("workspace")))
        promises = {name: _promised(plan, one) for name, one in self._parameters.items()}
        with plan.writing():
            given: Any = self.function
            returned = given(**promises)
        spec: dict[str, Any] = {}
        if self._parameters:
            spec["parameters"] = [one.manifest() for one in self._parameters.values()]
        if settings.get("workspace"):
            spec["workspace"] = {}
        if "parallelism" in settings:
            spec["parallelism"] = settings["parallelism"]
        if "timeout" in settings:
            spec["timeoutSeconds"] = max(1, round(settings["timeout"]))
        if "failure_policy" in settings:
            spec["failurePolicy"] = _POLICIES.get(settings["failure_policy"], settings["failure_policy"])
        if "history_limit" in settings:
            spec["historyLimit"] = settings["history_limit"]
        if "schedule" in settings:
            zone = settings.get("time_zone")
            spec["schedule"] = {"cron": settings["schedule"], **({"timeZone": zone} if zone else {})}
        spec["steps"] = plan.steps()
        if last := plan.last_steps():
            spec["onExit"] = last
        self._check(spec)
        metadata: dict[str, Any] = {"name": self.name}
        if settings.get("labels"):
            metadata["labels"] = dict(settings["labels"])
        metadata["annotations"] = {RESULT_ANNOTATION: json.dumps(self._shape(returned, plan))}
        return {"apiVersion": _VERSION, "kind": "Pipeline", "metadata": metadata, "spec": spec}

    def to_yaml(self) -> str:
        """The manifest for `rota submit` or `kubectl apply`."""
        return str(yaml.safe_dump(self.manifest(), sort_keys=False, allow_unicode=True, width=10_000))

    def graph(self) -> str:
        """Its steps and their dependencies."""
        return "\n".join(diagrams.text(self._known(), {}))

    def _known(self) -> graphs.Graph:
        spec = self.manifest()["spec"]
        return graphs.graph([*spec["steps"], *spec.get("onExit", ())])

    def _check(self, spec: Mapping[str, Any]) -> None:
        wrong = pipeline_validation.check(spec, fields.Path("spec"))
        if wrong:
            raise PipelineError(f"{serialization.name_of(self.function)}: {'; '.join(map(str, wrong[:_FAULTS]))}")

    def _shape(self, value: Any, plan: Plan) -> dict[str, Any]:
        """How the function's result is composed of results of steps."""
        if isinstance(value, Promise):
            if value.plan is not plan or not value.step:
                raise PipelineError(
                    f"{serialization.name_of(self.function)} returns {value!r}", "return what a step gives"
                )
            return {"step": value.step, "kind": value.kind}
        if isinstance(value, dict) and all(isinstance(name, str) for name in value):
            return {"dict": {name: self._shape(part, plan) for name, part in value.items()}}
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [self._shape(part, plan) for part in value]}
        if not task_runner.is_plain(value):
            raise PipelineError(f"{serialization.name_of(self.function)} returns {value!r}", "return what steps give")
        return {"value": value}

    # --- in the cluster -----------------------------------------------------------------------------------------------

    def create(self, client: Client | None = None) -> None:
        """Create or replace the Pipeline in the cluster; a schedule starts with that."""
        self._created(client or clients.default(), self.manifest())

    def _created(self, client: Client, manifest: dict[str, Any]) -> None:
        placed = {**manifest, "metadata": {**manifest["metadata"], "namespace": client.namespace}}

        async def apply(api: ApiClient) -> None:
            await api.apply(PIPELINES, placed, field_manager="rota", force=True)

        client.ask(apply)

    def run(self, client: Client | None = None, /, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Start a run of the pipeline as it is defined now, with these parameters."""
        try:
            given = inspect.signature(self.function).bind_partial(*args, **kwargs).arguments
        except TypeError:
            given = dict(kwargs)  # errors are reported by name below
        values = parameters.given(serialization.name_of(self.function), self._parameters, given)
        chosen = client or clients.default()
        manifest = self.manifest()
        self._created(chosen, manifest)
        name = manifests.fresh_name(self.name)
        run = {
            "apiVersion": _VERSION,
            "kind": "PipelineRun",
            "metadata": {
                "name": name,
                "namespace": chosen.namespace,
                "labels": {object_names.PIPELINE_LABEL: object_names.label(self.name)},
                "annotations": {RESULT_ANNOTATION: meta.annotations(manifest)[RESULT_ANNOTATION]},
            },
            "spec": {"pipeline": self.name, **({"parameters": values} if values else {})},
        }

        async def begin(api: ApiClient) -> None:
            await api.create(RUNS, run)

        chosen.ask(begin)
        return Run(chosen, name)

    def __repr__(self) -> str:
        shown = ", ".join(self._parameters)
        return f"<rota.pipeline {self.name}({shown})>"

    def _repr_html_(self) -> str:
        return f"<div>{diagrams.svg(self._known(), {})}</div>"


def _promised(plan: Plan, parameter: Parameter) -> Promise:
    return Promise(plan, f"parameters.{parameter.name}", kind=parameter.kind)


@overload
def pipeline(function: Callable[P, R], /) -> Pipeline[P, R]: ...


@overload
def pipeline(**settings: Unpack[PipelineOptions]) -> Callable[[Callable[P, R]], Pipeline[P, R]]: ...


def pipeline(function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
    """Make a pipeline of a function: `@rota.pipeline`, or with options `@rota.pipeline(schedule="0 6 * * *")`."""
    unknown = [one for one in settings if one not in PipelineOptions.__annotations__]
    if unknown:
        known = ", ".join(PipelineOptions.__annotations__)
        raise PipelineError(f"a pipeline has no option {unknown[0]}", f"there are {known}")
    given: Any = settings
    if function is not None:
        return Pipeline(function, given)
    return lambda one: Pipeline(one, given)


# --- status of steps and runs -----------------------------------------------------------------------------------------


def status_of(step: object) -> Any:
    """In a pipeline: how a step ended, `Succeeded`, `Failed`, `Skipped` or `Cancelled`, to compare or to pass on."""
    plan = pipeline_builder.current()
    if plan is None:
        return "Succeeded"
    if not isinstance(step, Promise) or not step.step:
        raise PipelineError(f"{step!r} is no step", "give it what the call of a task gave")
    return Promise(plan, f"steps.{step.step}.status", kind="text", step="")


def run_status() -> Any:
    """In the steps of `rota.on_exit()`: how the run ended."""
    plan = pipeline_builder.current()
    return "Succeeded" if plan is None else Promise(plan, "run.status", kind="text")


def run_name() -> Any:
    """In a pipeline: the name of the run."""
    plan = pipeline_builder.current()
    return "here" if plan is None else Promise(plan, "run.name", kind="text")
