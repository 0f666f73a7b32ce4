"""Whatever a client sends, the answer is an object or a PatchError: no other exception, no change in place."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api.patches import apply, errors, json_patch, merge, schemas, strategic
from rota.api.patches.versions import Versions

FIELDS = """
    metadata spec name labels annotations finalizers ownerReferences uid containers ports containerPort env volumes
    nodeName tolerations securityContext managedFields nonsense a
"""
DIRECTIVES = """
    $patch $retainKeys $setElementOrder $setElementOrder/ $setElementOrder/containers $setElementOrder/finalizers
    $deleteFromPrimitiveList $deleteFromPrimitiveList/finalizers $deleteFromPrimitiveList/containers
"""
names = st.sampled_from([*FIELDS.split(), *DIRECTIVES.split(), apply.LAST_APPLIED])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "a", "delete", "replace", "merge", "name", "containers", "\ud7ff", "{", '{"a":1}']),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=25,
)
objects = st.dictionaries(names, values, max_size=5)

schema = schemas.for_kind("v1", "Pod")
assert schema is not None
POD = schema
PODS = Versions(schemas={"v1": POD})
NOW = "2024-05-01T10:00:00Z"


def _pod(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "apiVersion": "v1", "kind": "Pod"}


@pytest.mark.slow
@settings(max_examples=300)
@given(objects, values)
def test_strategic_merge_answers_anything(original: dict[str, Any], patch: Any) -> None:
    before = copy.deepcopy((original, patch))
    with suppress(errors.PatchError):
        assert isinstance(strategic.apply(original, patch, POD), dict)
    assert (original, patch) == before


@pytest.mark.slow
@settings(max_examples=300)
@given(objects, objects, st.booleans())
def test_apply_answers_anything(live: dict[str, Any], config: dict[str, Any], force: bool) -> None:
    before = copy.deepcopy((live, config))
    for stored in (None, _pod(live)):
        with suppress(errors.PatchError):
            result = apply.apply(stored, _pod(config), manager="kubectl", versions=PODS, now=NOW, force=force)
            assert result["kind"] == "Pod"
    assert (live, config) == before


@pytest.mark.slow
@settings(max_examples=300)
@given(objects, objects)
def test_update_takes_anything(live: dict[str, Any], new: dict[str, Any]) -> None:
    before = copy.deepcopy((live, new))
    for stored in (None, _pod(live)):
        result = apply.update(stored, _pod(new), manager="x", versions=PODS, now=NOW)
        assert result.get("spec") == new.get("spec")
    assert (live, new) == before


ELEMENTS = [".", "", "x", "f:spec", "f:nodeName", 'k:{"name":"a"}', "k:1", 'v:"a"', "v:{", "i:0", "i:", "q:x"]
entries = st.fixed_dictionaries(
    {},
    optional={
        "manager": scalars,
        "operation": st.sampled_from(["Apply", "Update", "Other", None, 1]),
        "apiVersion": st.sampled_from(["v1", "v2", "", None, 1]),
        "time": st.sampled_from([NOW, "never", None, 1]),
        "fieldsType": st.sampled_from(["FieldsV1", "", None, 1]),
        "fieldsV1": st.recursive(
            scalars | st.just({}),
            lambda inner: st.dictionaries(st.sampled_from(ELEMENTS), inner, max_size=3),
            max_leaves=6,
        ),
        "subresource": scalars,
    },
)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(entries | scalars, max_size=3) | scalars)
def test_managed_fields_may_be_anything(managed: Any) -> None:
    pod = _pod({"metadata": {"uid": "1", "managedFields": managed}, "spec": {"nodeName": "n"}})
    apply.update(pod, pod, manager="x", versions=PODS, now=NOW)
    with suppress(errors.PatchError):
        apply.apply(pod, _pod({"spec": {"nodeName": "n"}}), manager="x", versions=PODS, now=NOW, force=True)


pointers = st.sampled_from(
    ["", "/", "/a", "/spec/containers/0", "/spec/containers/-", "/~2", "a", "/a/b/c", "/metadata/labels"]
)
operations = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "append", None, 1]),
        "path": pointers | scalars,
        "from": pointers | scalars,
        "value": values,
    },
)


@pytest.mark.slow
@settings(max_examples=500)
@given(values, st.lists(operations | scalars, max_size=4) | scalars)
def test_json_patch_answers_anything(document: Any, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    with suppress(errors.PatchError):
        json_patch.apply(document, patch)
    assert (document, patch) == before


@pytest.mark.slow
@given(values, values)
def test_merge_patch_answers_anything(document: Any, patch: Any) -> None:
    merge.apply(document, patch)
