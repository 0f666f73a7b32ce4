"""Builds a `rota.dev/v1alpha1 Pipeline` from calls of tasks.

The pipeline's function is called once, with promises as arguments; each task that it calls adds a step and returns a
promise of its value. The result is an ordinary manifest that contains the code of each step, so that a run keeps the
code that it started with.
"""

import contextlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from rota.api import names
from rota.api.pipelines.object_names import ITEM, PROOF
from rota.kit.errors import UserError
from rota.python import serialization, task_runner
from rota.python.failures import TooLarge
from rota.python.options import Options
from rota.python.promises import Condition, Promise
from rota.python.serialization import Packed

#: The size limit of a step's code and constants in bytes: they are stored in the Pipeline, which has one limit for all.
MOST_BYTES: Final = 64 * 1024
_VALUE: Final = "rota.dev/value-"
#: Where the signature of a step's result is.
_SIGNATURE: Final = "outputs.signature"


class PipelineError(UserError, TypeError):
    """The pipeline's function is invalid."""


class StepOptions(TypedDict, total=False):
    """The options of a task as a step of a pipeline."""

    #: The step's name; the function's name by default.
    name: str
    #: Steps that must finish first, by the promises that their calls returned.
    after: Sequence[object]
    #: A condition from a comparison of promises. If it is false, the step is skipped.
    when: object
    #: Whether the result of an earlier run with the same work may be reused.
    cache: bool
    #: Steps whose nodes are preferred.
    near: Sequence[object]
    #: How many of its items run at a time.
    parallelism: int
    #: A mutex that only one step of all runs may hold at a time.
    mutex: str
    #: Whether dependent steps may run although this one failed.
    continue_on_failure: bool


@dataclass(slots=True, kw_only=True)
class _Step:
    """A step under construction."""

    name: str
    packed: Packed
    options: Options
    #: The texts of its values, by their numbers; and the proofs of those that are outputs of other steps.
    values: list[str]
    proofs: dict[int, str]
    settings: StepOptions
    each: dict[str, Any] | None = None
    #: Whether another step runs once for each item of its result.
    split: bool = False


_current: Final[ContextVar["Plan | None"]] = ContextVar("rota_pipeline", default=None)


def current() -> "Plan | None":
    """The pipeline under construction, if there is one."""
    return _current.get()


class Plan:
    """The steps of a pipeline under construction."""

    def __init__(self, name: str, *, workspace: bool) -> None:
        self.name: Final = name
        self._workspace: Final = workspace
        self._steps: Final[dict[str, _Step]] = {}
        self._last: Final[dict[str, _Step]] = {}
        self._group = self._steps

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Inside this context, calls of tasks add steps."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    @contextlib.contextmanager
    def at_the_end(self) -> Iterator[None]:
        """Inside this context, steps are final steps of the run."""
        before, self._group = self._group, self._last
        try:
            yield
        finally:
            self._group = before

    # --- steps --------------------------------------------------------------------------------------------------------

    def add(
        self,
        function: Callable[..., Any],
        options: Options,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        settings: StepOptions,
    ) -> Any:
        """Add a step; returns the promise of its value."""
        _check_call(function, args, kwargs)
        step = self._added(function, options, args, kwargs, settings)
        return Promise(self, f"steps.{step.name}.outputs.result", kind="value", step=step.name)

    def add_each(
        self,
        function: Callable[..., Any],
        options: Options,
        iterables: Sequence[Iterable[Any]],
        *,
        settings: StepOptions,
    ) -> Any:
        """Add a step that runs once for each item; returns the promise of the list of its values."""
        if not iterables:
            raise PipelineError(f"over what should {serialization.name_of(function)} be run?", "give it a list")
        _check_call(function, iterables, {})
        promised = [one for one in iterables if isinstance(one, Promise)]
        if promised and len(iterables) > 1:
            raise PipelineError(
                f"{serialization.name_of(function)} runs over a list that is not there yet, and over another one",
                "have a step put both together",
            )
        each, args = self._over_promise(promised[0]) if promised else self._over_items(iterables)
        step = self._added(function, options, args, {}, settings, each=each)
        return Promise(self, f"steps.{step.name}.outputs.result", kind="values", step=step.name)

    def _over_promise(self, promise: Promise) -> tuple[dict[str, Any], list[Promise]]:
        self._own(promise)
        if not promise.step:  # items of a parameter are in the user's form
            kind = promise.kind.partition(":")[2] or "json"
            return {"from": f"{{{{ {promise.reference} }}}}"}, [Promise(self, "item", kind=kind)]
        if promise.kind == "values":  # results of items are a list of texts already
            proof = self._proof(promise.step, "result", "{{ item.proof }}")
            item = Promise(self, "item.value", kind="value", proof=proof)
            return {"from": f"{{{{ steps.{promise.step}.signed.result }}}}"}, [item]
        source = self._steps.get(promise.step) or self._last[promise.step]
        source.split = True
        listed = f"steps.{promise.step}.outputs.items"
        proof = self._proof(promise.step, "items", f"{{{{ {listed}-signature }}}} {{{{ {listed} }}}}")
        return {"from": f"{{{{ {listed} }}}}"}, [Promise(self, "item", kind="value", proof=proof)]

    def _over_items(self, iterables: Sequence[Iterable[Any]]) -> tuple[dict[str, Any], list[Promise]]:
        rows = list(zip(*iterables, strict=False))
        signed = [
            any(isinstance(row[number], Promise) and row[number].step for row in rows)
            for number in range(len(iterables))
        ]
        items = [
            {str(number): self._item(one, signed=signed[number]) for number, one in enumerate(row)} for row in rows
        ]
        if len(iterables) == 1:
            return {"items": [item["0"] for item in items]}, [self._item_promise("item", signed=signed[0])]
        promises = [self._item_promise(f"item.{number}", signed=one) for number, one in enumerate(signed)]
        return {"items": items}, promises

    def _item_promise(self, reference: str, *, signed: bool) -> Promise:
        if not signed:
            return Promise(self, reference, kind="value")
        return Promise(self, f"{reference}.value", kind="value", proof=f"{{{{ {reference}.proof }}}}")

    def _item(self, value: Any, *, signed: bool) -> Any:
        """An item as it stands in the pipeline; `signed` ones have a proof, which is empty for constants."""
        proof = "   "
        if isinstance(value, Promise):
            self._own(value)
            if value.kind == "values":
                raise PipelineError(
                    f"an item of the list is itself the list of results of {value.step}",
                    "have a step put them together, or run over the results alone",
                )
            text = f"{{{{ {value.reference} }}}}"
            if value.step:
                proof = self._proof(value.step, "result", f"{{{{ steps.{value.step}.{_SIGNATURE} }}}}")
        else:
            text = task_runner.write(value).replace("{{", "{\\u007b")
        return {"value": text, "proof": proof} if signed else text

    def _proof(self, step: str, output: str, signature: str) -> str:
        """What the task runner verifies an output by: `STEP OUTPUT SCOPE SIGNATURE`."""
        return f"{step} {output} {self._scope(self._steps.get(step) or self._last[step])} {signature}"

    @staticmethod
    def _scope(step: _Step) -> str:
        return task_runner.ANY_RUN if step.settings.get("cache") else "{{ run.uid }}"

    def _added(
        self,
        function: Callable[..., Any],
        options: Options,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        settings: StepOptions,
        *,
        each: dict[str, Any] | None = None,
    ) -> _Step:
        promises: list[Promise] = []
        numbers: dict[int, int] = {}

        def promised(value: Any) -> int | None:
            if not isinstance(value, Promise):
                return None
            self._own(value)
            if id(value) not in numbers:
                numbers[id(value)] = len(promises)
                promises.append(value)
            return numbers[id(value)]

        shown = serialization.name_of(function)
        content = serialization.pack(function, args, kwargs, name=shown, promised=promised)
        if len(content) > MOST_BYTES:
            raise TooLarge(
                f"{shown} ({serialization.where(function)}) and its constants are {len(content) // 1024} KiB, "
                "and a step may "
                f"have {MOST_BYTES // 1024}",
                "have another step make what is large, or read it from a file",
            )
        kinds = tuple(one.kind.partition(":")[0] for one in promises)
        step = _Step(
            name=self._name(str(settings.get("name") or options.name or getattr(function, "__name__", "step"))),
            packed=Packed(name=shown, content=content, values=kinds),
            options=options,
            values=[f"={{{{ {one.reference} }}}}" for one in promises],
            proofs={number: proof for number, one in enumerate(promises) if (proof := self._proof_of(one))},
            settings=settings,
            each=each,
        )
        self._group[step.name] = step
        return step

    def _proof_of(self, promise: Promise) -> str:
        if promise.proof or not promise.step:
            return promise.proof
        return self._proof(promise.step, "result", f"{{{{ steps.{promise.step}.{_SIGNATURE} }}}}")

    def _name(self, wanted: str) -> str:
        stem = re.sub(r"[^a-z0-9]+", "-", wanted.lower()).strip("-")[:55].strip("-") or "step"
        assert not names.check_dns1123_label(stem)
        taken = {*self._steps, *self._last}
        number = 1
        while (name := stem if number == 1 else f"{stem}-{number}") in taken:
            number += 1
        return name

    def _own(self, promise: Promise) -> None:
        if promise.plan is not self:
            raise PipelineError(f"{promise.reference} belongs to another pipeline than {self.name}")

    # --- manifests ----------------------------------------------------------------------------------------------------

    def steps(self) -> list[dict[str, Any]]:
        """The steps of the Pipeline."""
        return [self._manifest(step) for step in self._steps.values()]

    def last_steps(self) -> list[dict[str, Any]]:
        """Its final steps."""
        return [self._manifest(step) for step in self._last.values()]

    def _manifest(self, step: _Step) -> dict[str, Any]:
        outputs = ["result", "items"] if step.split else ["result"]
        declared = ["result", "signature", *(["items", "items-signature"] if step.split else [])]
        made: dict[str, Any] = {"name": step.name, "outputs": [{"name": one} for one in declared]}
        if step.options.gang:
            if self._workspace:
                raise PipelineError(
                    f"step {step.name} is a gang: its processes may run on several nodes, and the workspace is on one",
                    "leave out workspace, and return what the next steps need",
                )
            made["gang"] = step.options.gang
        if step.each is not None:
            made["forEach"] = step.each
        made |= self._from_settings(step.settings)
        if step.options.retries:
            delay = max(1, round(step.options.retry_delay))
            made["retries"] = {"limit": step.options.retries, "initialSeconds": delay}
        if step.options.timeout is not None:
            made["timeoutSeconds"] = max(1, round(step.options.timeout))
        made["template"] = self._template(step, outputs)
        return made

    def _from_settings(self, settings: StepOptions) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if after := self._named(settings.get("after") or (), "after"):
            made["dependsOn"] = after
        if "when" in settings:
            condition = settings["when"]
            if isinstance(condition, bool):  # the value is known, as in a pipeline inside another
                condition = Condition("true" if condition else "false")
            if not isinstance(condition, Condition):
                raise PipelineError(f"when={condition!r} is no condition", "compare what a step or a parameter gives")
            made["when"] = condition.text
        if near := self._named(settings.get("near") or (), "near"):
            made["near"] = near
        for wish, name in (("cache", "cache"), ("continue_on_failure", "continueOnFailure")):
            if settings.get(wish):
                made[name] = True
        for wish in ("parallelism", "mutex"):
            if settings.get(wish):
                made[wish] = settings[wish]  # type: ignore[literal-required] # both are names of settings
        return made

    def _named(self, promises: Sequence[object], wish: str) -> list[str]:
        listed = [promises] if isinstance(promises, Promise) else list(promises)
        for one in listed:
            if not isinstance(one, Promise) or not one.step:
                raise PipelineError(f"{wish}={one!r} is no step", "give it what the call of a task gave")
            self._own(one)
        return [one.step for one in listed if isinstance(one, Promise)]

    def _template(self, step: _Step, outputs: list[str]) -> dict[str, Any]:
        parts = step.packed.parts()
        results = "{{ workspace }}/.rota" if self._workspace else ""
        header = step.packed.header(
            parts=len(parts), results=results, outputs=outputs, step=step.name, signed=sorted(step.proofs)
        )
        plain = {"ROTA_TASK": header}
        if step.options.elsewhere:
            plain["ROTA_BOOTSTRAP"] = serialization.bootstrap_text()
        plain |= {f"ROTA_TASK_{number}": part for number, part in enumerate(parts)}
        variables: list[dict[str, Any]] = [{"name": name, "value": text} for name, text in plain.items()]
        key = {"secretKeyRef": {"name": "{{ run.signingSecret }}", "key": "key"}}
        variables.append({"name": "ROTA_TASK_KEY", "valueFrom": key})
        # through annotations, because dollar references in variables would be expanded
        annotations = {
            "ROTA_SCOPE": (f"{PROOF}scope", self._scope(step)),
            **{f"ROTA_VALUE_{number}": (f"{_VALUE}{number}", text) for number, text in enumerate(step.values)},
            **{f"ROTA_PROOF_{number}": (f"{PROOF}{number}", text) for number, text in step.proofs.items()},
        }
        found = {variable: name for variable, (name, _) in annotations.items()}
        if step.each is not None:
            found["ROTA_ITEM"] = ITEM
        variables += [
            {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{name}']"}}}
            for variable, name in found.items()
        ]
        metadata: dict[str, Any] = {"annotations": {**step.options.pod_annotations, **dict(annotations.values())}}
        if step.options.pod_labels:
            metadata["labels"] = step.options.pod_labels
        return {"metadata": metadata, "spec": step.options.pod_spec(variables)}


def _check_call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse an invalid call at the call, as Python would."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions that are not written in Python have no signature
        return
    signature.bind(*args, **kwargs)


@contextlib.contextmanager
def on_exit() -> Iterator[None]:
    """In a pipeline: the steps of this block run at the end of a run, whatever its result."""
    plan = current()
    if plan is None:
        yield
        return
    with plan.at_the_end():
        yield
