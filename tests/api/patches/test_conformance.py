"""Agreement with Kubernetes' own code on recorded cases.

`conformance.jsonl.gz` holds inputs from a random generator and what k8s.io/apimachinery v0.37.2 (strategicpatch,
managedfields) with structured-merge-diff v6.4.2 answered. The first line holds the schemas of the custom kind; every
other line is one case. Left out is where Go's types, not its algorithms, decide: objects that Go cannot hold without
adding zero values, live objects that do not fit their schema, and `$setElementOrder` for an empty list, which upstream
refuses and we accept.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rota.api.patches import apply, errors, field_paths, schemas, strategic, structural, versions

RECORD = Path(__file__).with_name("conformance.jsonl.gz")

Case = dict[str, Any]


@cache
def _record() -> tuple[dict[str, Any], list[Case]]:
    with gzip.open(RECORD, "rt", encoding="utf-8") as lines:
        head, *cases = map(json.loads, lines)
    return head, cases


def _groups() -> list[Any]:
    groups = sorted({(case["operation"], case["kind"]) for case in _record()[1]})
    # The custom kind has by far the most cases.
    return [pytest.param(*group, marks=[pytest.mark.slow] if "Widget" in group else []) for group in groups]


@pytest.mark.parametrize(("operation", "kind"), _groups())
def test_we_answer_as_kubernetes_does(operation: str, kind: str) -> None:
    cases = [case for case in _record()[1] if (case["operation"], case["kind"]) == (operation, kind)]
    differing = [case for case in cases if not _agrees(case)]
    assert cases
    assert not differing, f"{len(differing)} of {len(cases)} differ; the first: {json.dumps(differing[0])}"


def test_the_record_has_many_cases_of_each_sort() -> None:
    cases = _record()[1]
    answers = [case["answer"] for case in cases]
    assert sum(case["operation"] == "strategic" for case in cases) >= 400
    assert sum(case["operation"] == "apply" for case in cases) >= 700
    assert sum(case["operation"] == "update" for case in cases) >= 400
    assert sum(bool(answer.get("causes")) for answer in answers) >= 100


def _agrees(case: Case) -> bool:
    expected, ours = case["answer"], _answer(case)
    if "object" not in expected:
        wanted = {"error": expected["error"], "causes": sorted(expected.get("causes") or [], key=str)}
        return ours == wanted
    if "object" not in ours:
        return False
    mine, theirs = ours["object"], expected["object"]
    if case["operation"] == "strategic":
        return bool(mine == strategic._without_list_directives(theirs))
    owners = mine["metadata"].pop("managedFields", None), theirs["metadata"].pop("managedFields", None)
    zeros = case["mode"] == "builtin"
    return bool(owners[0] == owners[1] and _plain(mine, zeros=zeros) == _plain(theirs, zeros=zeros))


def _answer(case: Case) -> dict[str, Any]:
    before = json.dumps(case)
    try:
        return {"object": _run(case)}
    except errors.ApplyConflict as error:
        causes = [{"field": c.field, "message": c.message, "reason": c.REASON} for c in error.conflicts]
        return {"error": error.message, "causes": sorted(causes, key=str)}
    except errors.PatchError as error:
        return {"error": error.message, "causes": []}
    finally:
        assert json.dumps(case) == before, "arguments must not be changed"


def _run(case: Case) -> dict[str, Any]:
    if case["operation"] == "strategic":
        return strategic.apply(case["live"], case["input"], _builtin(case))
    options: dict[str, Any] = {
        "manager": case["manager"],
        "versions": _versions(case),
        "now": case["now"],
        "subresource": case["subresource"],
        "reset": frozenset(field_paths.path(*steps) for steps in case["reset"]),
    }
    if case["operation"] == "apply":
        return apply.apply(case["live"], case["input"], force=case["force"], **options)
    return apply.update(case["live"], case["input"], **options)


def _builtin(case: Case) -> schemas.TypeSchema:
    schema = schemas.for_kind(case["version"], case["kind"])
    assert schema is not None
    return schema


def _versions(case: Case) -> versions.Versions:
    match case["mode"]:
        case "builtin":
            return versions.Versions(schemas={case["version"]: _builtin(case)})
        case "deduced":
            return versions.Versions(schemas={case["version"]: schemas.DEDUCED})
        case _:
            return versions.Versions(schemas={version: _custom(version) for version in case["versions"]})


@cache
def _custom(version: str) -> schemas.TypeSchema:
    return structural.from_openapi(_record()[0]["schemas"][version])


def _plain(value: Any, *, zeros: bool) -> Any:
    """Without nulls, and for built-in kinds without the zero values that Go's types add when they encode."""
    if isinstance(value, dict):
        inner = {key: _plain(item, zeros=zeros) for key, item in value.items()}
        return {key: item for key, item in inner.items() if item is not None and (item or not zeros)}
    if isinstance(value, list):
        return [_plain(item, zeros=zeros) for item in value]
    return value
