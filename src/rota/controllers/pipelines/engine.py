"""Which steps of a run to start, stop or skip, and when the run is over. Pure: a run and a time in, a decision out.

Decisions follow from the run's objects alone, so a new leader decides the same. A decision visits each step, but not
each of its step runs: `progress` keeps their totals. A step starts when the steps it waits for are over; whether it
runs depends on their results and on its own condition. The final steps start when all others are over, with any result.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rota.api.pipelines import expressions
from rota.api.pipelines.expressions import ExpressionError, Lookup, Reference, Unknown
from rota.api.pipelines.object_names import PROOF
from rota.controllers.pipelines.progress import Progress, RunState, Tally
from rota.controllers.pipelines.states import BLOCKED, NO_ITEMS, Decision, NewStep, Phase, RunPhase, StepKey

#: Step runs that one decision creates at most; the next decision follows soon.
MOST_AT_ONCE: Final = 500
MOST_ITEMS: Final = 100_000
DEFAULT_WORKSPACE: Final = "/workspace"
#: Fields of a step in which expressions are replaced and that are copied to its step runs.
_HANDED_ON: Final = ("template", "job", "mutex", "near")
_KEPT: Final = ("gang", "outputs", "retries", "timeoutSeconds")
#: The items of a step without items.
_ITSELF: Final[Sequence[Any]] = (None,)


def decide(run: RunState, *, now: float) -> Decision:
    """The decision about a run."""
    return _Deciding(run, now).decision()


class _Deciding:
    def __init__(self, run: RunState, now: float) -> None:
        self._run: Final = run
        self._known: Final = run.steps
        self._steps: Final = {step["name"]: step for step in (*run.main, *run.last)}
        # cached for this decision: its input does not change
        self._over: Final[dict[str, bool]] = {}
        self._failed_ones: Final = self._failed(run.main)
        limit = run.spec.get("timeoutSeconds")
        self._deadline: Final = run.started_at + limit if limit else None
        self._late: Final = self._deadline is not None and now >= self._deadline
        self._made: Final[list[NewStep]] = []
        self._open = run.steps.going

    def decision(self) -> Decision:
        run = self._run
        failed, late = self._failed_ones, self._late
        # a cancelled run ignores `suspend`: its final steps must run
        held = run.suspend and not run.cancel
        stopping = run.cancel or late or (bool(failed) and run.spec.get("failurePolicy", "FailFast") == "FailFast")
        stop: list[StepKey] = []
        if stopping:
            stop = [(name, index) for name, tally in self._tallies(run.main) for index in tally.going]
        elif not held:
            self._begin(run.main)
        over = self._all_over(run.main, stopping=stopping)
        if over:
            if not held:
                self._begin(run.last)
            over = self._all_over(run.last, stopping=False) and not self._made
        if not over or self._made:
            waits = held and not self._open
            phase = RunPhase.SUSPENDED if waits else RunPhase.RUNNING
            reason, message = self._why(failed, late)
            wake_at = None if late else self._deadline
            more = len(self._made) >= MOST_AT_ONCE
            return Decision(
                make=self._made, stop=stop, phase=phase, reason=reason, message=message, wake_at=wake_at, more=more
            )
        return self._result(failed, late)

    def _result(self, failed: Sequence[str], late: bool) -> Decision:
        run = self._run
        reason, message = self._why(failed, late)
        at_the_end = self._failed(run.last)
        if run.cancel:
            phase, reason, message = RunPhase.CANCELLED, "Cancelled", "it was cancelled"
        elif failed or late:
            phase = RunPhase.FAILED
        elif at_the_end:
            phase, reason = RunPhase.FAILED, "OnExitFailed"
            message = f"at the end, {_listed(at_the_end)} failed"
        else:
            phase = RunPhase.SUCCEEDED
        return Decision(make=(), stop=(), phase=phase, reason=reason, message=message)

    def _why(self, failed: Sequence[str], late: bool) -> tuple[str, str]:
        if late:
            return "DeadlineExceeded", f"it was not done within {self._run.spec['timeoutSeconds']} s"
        return ("StepFailed", f"{_listed(failed)} failed") if failed else ("", "")

    # --- new step runs ----------------------------------------------------------------------------------------------

    def _begin(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Create the step runs that may start."""
        waits = self._run.waits
        most = self._run.spec.get("parallelism")
        among = {step["name"] for step in steps}
        for step in steps:
            if len(self._made) >= MOST_AT_ONCE or (most and self._open >= most):
                return
            name = step["name"]
            if self._is_over(name) or not all(self._is_over(other) for other in waits[name] if other in among):
                continue
            if self._known.of(name) is None and self._left_out(step, waits[name] & among):
                continue
            self._begin_items(step, most)

    def _left_out(self, step: Mapping[str, Any], waits: Iterable[str]) -> bool:
        """Whether a step is skipped; if so, that is recorded."""
        condition = step.get("when")
        explicit: set[str] = set()
        if condition:
            read = expressions.condition(condition)
            explicit = {one[1] for one in read.references if one[0] == "steps" and one[2:] == ("status",)}
        blocked = sorted(name for name in waits if name not in explicit and self._blocks(name))
        if blocked:
            self._take_down(step, Phase.SKIPPED, BLOCKED, f"{_listed(blocked)} did not succeed")
            return True
        if not condition:
            return False
        try:
            if expressions.condition(condition).holds(self._lookup(None)):
                return False
        except (Unknown, ExpressionError) as problem:
            self._take_down(step, Phase.FAILED, "TemplateError", f"when: {problem}")
            return True
        self._take_down(step, Phase.SKIPPED, "ConditionNotMet", f"not {condition}")
        return True

    def _begin_items(self, step: Mapping[str, Any], most: int | None) -> None:
        name = step["name"]
        items = self._items_of(step)
        if isinstance(items, str):
            self._take_down(step, Phase.FAILED, "TemplateError", items)
            return
        if not items:
            self._take_down(step, Phase.SUCCEEDED, NO_ITEMS, "there is nothing to do it for")
            return
        tally = self._known.of(name)
        known = tally.states if tally is not None else {}
        going = len(tally.going) if tally is not None else 0
        own = step.get("parallelism") or len(items)
        for place in range(tally.lowest if tally is not None and items is not _ITSELF else 0, len(items)):
            index = None if items is _ITSELF else place
            if len(self._made) >= MOST_AT_ONCE or going >= own or (most and self._open >= most):
                return
            if index not in known:
                self._made.append(self._filled(step, index, items[place]))
                if not self._made[-1].phase.over:
                    going += 1
                    self._open += 1

    def _filled(self, step: Mapping[str, Any], index: int | None, item: Any) -> NewStep:
        spec = {part: step[part] for part in _KEPT if part in step}
        key = step["name"], index
        try:
            lookup = self._lookup(item)
            spec |= {part: expressions.fill(step[part], lookup) for part in _HANDED_ON if part in step}
        except (Unknown, ExpressionError) as problem:
            return NewStep(key=key, spec=spec, phase=Phase.FAILED, reason="TemplateError", message=str(problem))
        if index is not None:
            spec["item"] = item
        if step.get("cache"):
            spec["cacheKey"] = cache_key(spec)
        return NewStep(key=key, spec=spec)

    def _take_down(self, step: Mapping[str, Any], phase: Phase, reason: str, message: str) -> None:
        self._made.append(NewStep(key=(step["name"], None), spec={}, phase=phase, reason=reason, message=message))

    # --- results of steps -------------------------------------------------------------------------------------------

    def _is_over(self, name: str) -> bool:
        if name not in self._over:
            self._over[name] = self._look_whether_over(name)
        return self._over[name]

    def _look_whether_over(self, name: str) -> bool:
        tally = self._known.of(name)
        if tally is None or tally.going:
            return False
        if None in tally.states:
            return True
        items = self._items_of(self._steps[name])
        return isinstance(items, str) or len(tally.states) >= len(items)

    def _all_over(self, steps: Sequence[Mapping[str, Any]], *, stopping: bool) -> bool:
        """Whether some steps are all over."""
        if stopping:
            return not any(tally.going for _, tally in self._tallies(steps))
        return all(self._is_over(step["name"]) for step in steps)

    def outcome(self, name: str) -> str:
        """The result of a step over all of its items."""
        tally = self._known.of(name)
        if tally is None:
            return Phase.SUCCEEDED.value
        for phase in (Phase.FAILED, Phase.CANCELLED):
            if tally.phases[phase]:
                return str(phase.value)
        return Phase.SKIPPED.value if tally.phases[Phase.SKIPPED] == len(tally.states) else Phase.SUCCEEDED.value

    def _blocks(self, name: str) -> bool:
        """Whether the result of a step keeps its dependents from running."""
        if self._steps[name].get("continueOnFailure"):
            return False
        tally = self._known.of(name)
        if tally is not None and tally.blocked:
            return True
        return self.outcome(name) in {Phase.FAILED.value, Phase.CANCELLED.value}

    def _failed(self, steps: Sequence[Mapping[str, Any]]) -> list[str]:
        return [
            name
            for name, tally in self._tallies(steps)
            if tally.phases[Phase.FAILED] and not self._steps[name].get("continueOnFailure")
        ]

    def _tallies(self, steps: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Tally]]:
        """The tallies of those steps that have step runs."""
        for step in steps:
            tally = self._known.of(step["name"])
            if tally is not None:
                yield step["name"], tally

    # --- values -----------------------------------------------------------------------------------------------------

    def _items_of(self, step: Mapping[str, Any]) -> Sequence[Any] | str:
        """The items of a step in their order, or the error in them."""
        each = step.get("forEach")
        if not each:
            return _ITSELF
        remembered = self._known.remembered
        found: list[Any] | str | None = remembered.get((step["name"],))
        if found is None:
            found = remembered[step["name"],] = self._worked_out(each)
        return found

    def _worked_out(self, each: Mapping[str, Any]) -> list[Any] | str:
        listed = each.get("items")
        try:
            value = expressions.fill(listed if listed is not None else each.get("from", ""), self._lookup(None))
        except (Unknown, ExpressionError) as problem:
            return f"forEach: {problem}"
        items = as_list(value)
        if items is None:
            return f"forEach: {str(value)[:80]!r} is no list"
        if len(items) > MOST_ITEMS:
            return f"forEach: {len(items)} items are more than {MOST_ITEMS}"
        return items

    def _lookup(self, item: Any) -> Lookup:
        run = self._run

        def find(reference: Reference) -> Any:
            match reference:
                case ("parameters", name) if name in run.parameters:
                    return run.parameters[name]
                case ("run", "name" | "namespace" | "uid" as part):
                    return getattr(run, part)
                case ("run", "signingSecret") if run.signing_secret:
                    return run.signing_secret
                case ("run", "status"):
                    return "Cancelled" if run.cancel else "Failed" if self._failed_ones or self._late else "Succeeded"
                case ("workspace",):
                    return (run.spec.get("workspace") or {}).get("path") or DEFAULT_WORKSPACE
                case ("item", *way):
                    return _inside(item, way)
                case ("steps", name, "status"):
                    return self.outcome(name) if self._known.of(name) is not None else ""
                case ("steps", name, "outputs", output):
                    return self._output(name, output)
                case ("steps", name, "signed", output):
                    return self._signed(name, output)
            raise Unknown(f"{{{{ {'.'.join(reference)} }}}} has no value")

        return find

    def _output(self, name: str, output: str) -> Any:
        remembered = self._known.remembered
        if (name, output) in remembered:
            return remembered[name, output]
        value = self._gathered(name, output)
        if self._is_over(name):
            remembered[name, output] = value
        return value

    def _signed(self, name: str, output: str) -> Any:
        """An output with its signature, which the controller cannot verify: only steps and clients have the key."""
        value, proof = self._output(name, output), self._output(name, "signature")
        if isinstance(value, list) and isinstance(proof, list):
            return [{"value": one, "proof": own} for one, own in zip(value, proof, strict=False)]
        return {"value": value, "proof": proof}

    def _gathered(self, name: str, output: str) -> Any:
        tally = self._known.of(name)
        known = tally.states if tally is not None else {}
        values = [(index or 0, state.outputs[output]) for index, state in known.items() if output in state.outputs]
        if not values and any(state.reason == NO_ITEMS for state in known.values()):
            return []
        if not values:
            raise Unknown(f"step {name} has left no output {output}")
        if None in known:
            return values[0][1]
        return [value for _, value in sorted(values)]


def counts(steps: Progress) -> dict[str, int]:
    """The number of step runs per phase, for the run's status."""
    counted = steps.phases
    return {phase.value.lower(): counted[phase] for phase in Phase if counted[phase]}


def as_list(value: Any) -> list[Any] | None:
    """A list: as it is, from JSON, or one item per line; None if it is none of these."""
    if isinstance(value, list):
        return value
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text.startswith("["):
        try:
            read = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return read if isinstance(read, list) else None
    return [line.strip() for line in text.splitlines() if line.strip()]


def cache_key(spec: Mapping[str, Any]) -> str:
    """The cache key of a step run: equal for equal work, whatever proves where its values are from."""
    work = {part: spec[part] for part in ("template", "job", "gang", "outputs") if part in spec}
    metadata = (work.get("template") or {}).get("metadata") or {}
    if metadata.get("annotations"):
        noted = {name: one for name, one in metadata["annotations"].items() if not name.startswith(PROOF)}
        work["template"] = {**work["template"], "metadata": {**metadata, "annotations": noted}}
    return hashlib.sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()[:40]


def _inside(value: Any, way: Sequence[str]) -> Any:
    for step in way:
        if not isinstance(value, Mapping) or step not in value:
            raise Unknown(f"the item has no {'.'.join(way)}")
        value = value[step]
    return value


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
