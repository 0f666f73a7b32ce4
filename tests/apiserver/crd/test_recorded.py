"""Schemas and objects with the results of Kubernetes' own code (apiextensions-apiserver 0.37, kube-openapi).

Random structural schemas with random objects: what is pruned, what is defaulted, and every error with its type, path
and message. Two intended differences do not occur in them: upstream accepts 1.5 for the enumeration [1], because it
compares after truncation, and its formats `mac` and `creditcard` are looser.
"""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rota.api import fields
from rota.apiserver.crd import checks, pruning, schema_rules, structure, uniqueness


def _recorded(name: str) -> list[dict[str, Any]]:
    with gzip.open(Path(__file__).with_name(name), "rt") as lines:
        return [json.loads(line) for line in lines]


def _told(errors: list[fields.FieldError]) -> list[list[str]]:
    return sorted([error.type.value, error.field, error.body()] for error in errors)


@pytest.mark.slow
def test_objects_are_shaped_and_judged_as_kubernetes_does() -> None:
    for case in _recorded("recorded_objects.jsonl.gz"):
        obj, shape = copy.deepcopy(case["object"]), structure.read(case["schema"])
        pruned = pruning.shape(obj, shape)
        complaints = [*checks.compile_value(case["schema"])(obj), *uniqueness.duplicates(obj, shape)]
        assert (pruned, obj) == (case["pruned"], case["shaped"]), case
        assert _told(complaints) == sorted(case["errors"]), case


def test_schemas_are_found_structural_or_not_as_kubernetes_does() -> None:
    cases = _recorded("recorded_schemas.jsonl.gz")
    assert sum(bool(case["errors"]) for case in cases) > 300
    for case in cases:
        assert _told(schema_rules.structural_errors(case["schema"], fields.Path("s"))) == sorted(case["errors"]), case
