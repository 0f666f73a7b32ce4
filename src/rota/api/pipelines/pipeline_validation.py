"""Validation of pipelines at admission: each error with its path, so that no run fails by it later.

Checked are names, the graph, parameters, every reference and condition. What a reference will hold is known only in a
run; that it can be there at all (a declared parameter, a declared output of a step that comes before) is known here.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from rota.api import fields, names
from rota.api.fields import FieldError, Path
from rota.api.pipelines import expressions, graphs
from rota.api.pipelines.expressions import ExpressionError, Reference

#: Values of the steps of a run, and of the run itself.
#: An output as {"value", "proof"}: with its signature, which is another output.
SIGNED: Final = "signed"
_OF_STEP: Final = {"outputs": 1, SIGNED: 1, "status": 0}
_OF_RUN: Final = frozenset({"name", "namespace", "uid", "status", "signingSecret"})
_PARAMETER: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_RUNS: Final = ("template", "job")
#: The scheduler that knows no gangs.
_ONE_BY_ONE: Final = "default-scheduler"
POLICIES: Final = ("FailFast", "Continue")
MOST_STEPS: Final = 2000


def check(spec: Mapping[str, Any], path: Path) -> list[FieldError]:
    """Everything that is wrong with a pipeline's spec."""
    steps = spec.get("steps") or []
    last = spec.get("onExit") or []
    found = _check_parameters(spec.get("parameters") or [], path.child("parameters"))
    if not steps:
        found.append(fields.required(path.child("steps"), "a pipeline has at least one step"))
    if len(steps) + len(last) > MOST_STEPS:
        found.append(fields.too_many(path.child("steps"), len(steps) + len(last), MOST_STEPS))
    found += _check_names([*_at(steps, path.child("steps")), *_at(last, path.child("onExit"))])
    policy = spec.get("failurePolicy")
    if policy and policy not in POLICIES:
        found.append(fields.not_supported(path.child("failurePolicy"), policy, list(POLICIES)))
    found += _check_positive(spec, ("parallelism", "timeoutSeconds", "historyLimit"), path)
    if found:
        return found
    declared = {one["name"] for one in spec.get("parameters") or ()}
    known = {step["name"]: step for step in steps}
    for group, where in ((steps, path.child("steps")), (last, path.child("onExit"))):
        # what comes at the end may mention everything that came before
        reachable = known if group is steps else {**known, **{step["name"]: step for step in last}}
        for position, step in enumerate(group):
            found += _check_step(step, where.index(position), declared, reachable)
            found += _check_gang(step, where.index(position), workspace=spec.get("workspace") is not None)
        if not found:
            found += _check_cycle(group, where)
    return found


def check_values(spec: Mapping[str, Any], given: Sequence[Mapping[str, Any]], path: Path) -> list[FieldError]:
    """What is wrong with the values that a run gives to a pipeline's parameters."""
    declared = {one["name"]: one for one in spec.get("parameters") or ()}
    found: list[FieldError] = []
    seen: set[str] = set()
    for position, one in enumerate(given):
        name = one.get("name", "")
        if name not in declared:
            known = ", ".join(sorted(declared)) or "none"
            found.append(fields.invalid(path.index(position).child("name"), name, f"the pipeline has {known}"))
        elif name in seen:
            found.append(fields.duplicate(path.index(position).child("name"), name))
        elif (choices := declared[name].get("choices")) and str(one.get("value", "")) not in choices:
            found.append(fields.not_supported(path.index(position).child("value"), one.get("value", ""), choices))
        seen.add(name)
    missing = [name for name, one in declared.items() if "default" not in one and name not in seen]
    return found + [fields.required(path.key(name), "the parameter has no default") for name in missing]


def _at(steps: Sequence[Mapping[str, Any]], path: Path) -> list[tuple[Mapping[str, Any], Path]]:
    return [(step, path.index(position)) for position, step in enumerate(steps)]


def _check_parameters(parameters: Sequence[Mapping[str, Any]], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for position, one in enumerate(parameters):
        name, where = one.get("name", ""), path.index(position).child("name")
        if _PARAMETER.fullmatch(name) is None:
            found.append(fields.invalid(where, name, "a parameter's name is letters, digits, - and _"))
        if name in seen:
            found.append(fields.duplicate(where, name))
        seen.add(name)
        if one.get("choices") and "default" in one and one["default"] not in one["choices"]:
            found.append(fields.not_supported(path.index(position).child("default"), one["default"], one["choices"]))
    return found


def _check_names(steps: Sequence[tuple[Mapping[str, Any], Path]]) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for step, path in steps:
        name = step.get("name", "")
        if not name:
            found.append(fields.required(path.child("name")))
            continue
        found += [fields.invalid(path.child("name"), name, why) for why in names.check_dns1123_label(name)]
        if name in seen:
            found.append(fields.duplicate(path.child("name"), name))
        seen.add(name)
    return found


def _check_step(
    step: Mapping[str, Any], path: Path, parameters: Collection[str], known: Mapping[str, Mapping[str, Any]]
) -> list[FieldError]:
    found: list[FieldError] = []
    runs = [kind for kind in _RUNS if step.get(kind)]
    if len(runs) != 1:
        found.append(fields.required(path.child("template"), "a step has a template of a pod or a job, and not both"))
    for part in ("dependsOn", "near"):
        for position, name in enumerate(step.get(part) or ()):
            if name not in known and not (part == "near" and "{{" in name):
                found.append(fields.not_found(path.child(part).index(position), name))
    each = step.get("forEach")
    if each is not None and ("items" in each) is bool(each.get("from")):
        found.append(fields.required(path.child("forEach"), "it has items or from, and not both"))
    found += _check_outputs(step, path)
    found += _check_positive(step, ("timeoutSeconds", "parallelism"), path)
    retries = step.get("retries") or {}
    found += _check_positive(retries, ("factor", "initialSeconds", "maxSeconds"), path.child("retries"))
    if (retries.get("limit") or 0) < 0:
        found.append(fields.invalid(path.child("retries", "limit"), retries["limit"], "must be at least 0"))
    for where, reference in _references(step, path, found):
        why = _unknown(reference, step, parameters, known)
        if why:
            found.append(fields.invalid(where, ".".join(reference), why))
    return found


def _check_gang(step: Mapping[str, Any], path: Path, *, workspace: bool) -> list[FieldError]:
    if step.get("gang") is None:
        return []
    found = _check_positive(step, ("gang",), path)
    if step.get("job"):
        found.append(fields.forbidden(path.child("gang"), "a gang has a template, and no job"))
    if workspace:
        why = "its pods may run on several nodes, and the workspace is on one; leave out workspace, and hand on outputs"
        found.append(fields.forbidden(path.child("gang"), why))
    scheduler = ((step.get("template") or {}).get("spec") or {}).get("schedulerName")
    if scheduler == _ONE_BY_ONE:
        why = "this scheduler places pods one by one; leave it out, or name one for batches"
        found.append(fields.invalid(path.child("template", "spec", "schedulerName"), scheduler, why))
    return found


def _references(step: Mapping[str, Any], path: Path, found: list[FieldError]) -> Iterator[tuple[Path, Reference]]:
    """Every reference of a step with its place; what cannot be read is added to `found`."""
    for name, value in step.items():
        where = path.child(name)
        try:
            read = expressions.condition(value).references if name == "when" else set(expressions.references(value))
        except ExpressionError as problem:
            found.append(fields.invalid(where, value if isinstance(value, str) else "", str(problem)))
            continue
        for reference in sorted(read):
            yield where, reference


def _unknown(
    reference: Reference,
    step: Mapping[str, Any],
    parameters: Collection[str],
    known: Mapping[str, Mapping[str, Any]],
) -> str:
    """Why a reference can never hold anything; empty if it may."""
    match reference:
        case ("parameters", name):
            return "" if name in parameters else f"the pipeline has no parameter {name}"
        case ("item", *_):
            return "" if step.get("forEach") else "only steps with forEach have an item"
        case ("run", name):
            return "" if name in _OF_RUN else f"a run has {', '.join(sorted(_OF_RUN))}"
        case ("workspace",):
            return ""
        case ("steps", name, part, *rest):
            if name not in known:
                return f"the pipeline has no step {name}"
            if name == step["name"]:
                return "a step cannot wait for itself"
            if len(rest) != _OF_STEP.get(part, -1):
                return "of a step there are outputs.NAME, signed.NAME and status"
            outputs = {one["name"] for one in known[name].get("outputs") or ()}
            missing = [one for one in (*rest, *(["signature"] if part == SIGNED else [])) if one not in outputs]
            return f"step {name} has no output {missing[0]}" if missing else ""
    return "there are parameters.NAME, steps.NAME.outputs.NAME, steps.NAME.status, item, run.name and workspace"


def _check_outputs(step: Mapping[str, Any], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for position, one in enumerate(step.get("outputs") or ()):
        where = path.child("outputs").index(position)
        name = one.get("name", "")
        if _PARAMETER.fullmatch(name) is None:
            found.append(fields.invalid(where.child("name"), name, "an output's name is letters, digits, - and _"))
        if name in seen:
            found.append(fields.duplicate(where.child("name"), name))
        seen.add(name)
        if one.get("from", "file") not in {"file", "stdout"}:
            found.append(fields.not_supported(where.child("from"), one["from"], ["file", "stdout"]))
        if step.get("job"):
            found.append(fields.forbidden(where, "only steps with a template have outputs"))
    return found


def _check_cycle(steps: Sequence[Mapping[str, Any]], path: Path) -> list[FieldError]:
    circle = graphs.cycle(graphs.graph(steps))
    if not circle:
        return []
    position = next(position for position, step in enumerate(steps) if step["name"] == circle[0])
    return [fields.invalid(path.index(position), circle[0], f"steps wait in a circle: {' -> '.join(circle)}")]


def _check_positive(value: Mapping[str, Any], parts: Sequence[str], path: Path) -> list[FieldError]:
    return [
        fields.invalid(path.child(name), value[name], "must be at least 1")
        for name in parts
        if value.get(name) is not None and value[name] < 1
    ]
