"""Strategic merge patch, rule by rule; agreement with upstream on random cases is in test_conformance."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api.patches import errors, schemas, strategic


def _schema(api_version: str, kind: str) -> schemas.TypeSchema:
    schema = schemas.for_kind(api_version, kind)
    assert schema is not None
    return schema


POD = _schema("v1", "Pod")
DEPLOYMENT = _schema("apps/v1", "Deployment")


def _patched(spec: dict[str, Any], patch: dict[str, Any]) -> Any:
    """What a patch of a pod's spec makes of it."""
    return strategic.apply({"spec": spec}, {"spec": patch}, POD)["spec"]


def _names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


def _containers(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "image": f"{name}:1"} for name in names]


# --- maps and scalars ------------------------------------------------------------------------------------------------


def test_maps_merge_and_null_deletes() -> None:
    labels = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    result = strategic.apply(labels, {"metadata": {"labels": {"a": None, "c": "3"}}}, POD)
    assert result == {"metadata": {"labels": {"b": "2", "c": "3"}}}


def test_nulls_for_fields_that_are_not_there_leave_no_trace() -> None:
    result = strategic.apply({}, {"spec": {"nodeName": None, "affinity": {"nodeAffinity": None}}}, POD)
    assert result == {"spec": {"affinity": {}}}


def test_a_map_can_be_replaced_whole() -> None:
    patch = {"metadata": {"labels": {"$patch": "replace", "c": "3"}}}
    assert strategic.apply({"metadata": {"labels": {"a": "1"}}}, patch, POD) == {"metadata": {"labels": {"c": "3"}}}


def test_a_map_can_be_emptied() -> None:
    patch = {"metadata": {"labels": {"$patch": "delete", "c": "3"}}}
    assert strategic.apply({"metadata": {"labels": {"a": "1"}}}, patch, POD) == {"metadata": {"labels": {}}}


def test_the_whole_object_can_be_replaced() -> None:
    patch = {"$patch": "replace", "kind": "Pod"}
    assert strategic.apply({"spec": {"nodeName": "n"}}, patch, POD) == {"kind": "Pod"}


def test_a_directive_for_a_map_that_is_not_there_leaves_no_trace() -> None:
    assert strategic.apply({}, {"metadata": {"labels": {"$patch": "delete"}}}, POD) == {"metadata": {}}


def test_retained_keys_clear_the_others() -> None:
    original = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic.apply(original, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_a_volume_changes_its_source_by_retaining_keys() -> None:
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "other", "emptyDir": {}}]
    patch = {"volumes": [{"name": "data", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}
    assert _patched({"volumes": volumes}, patch)["volumes"] == [
        {"name": "data", "secret": {"secretName": "s"}},
        {"name": "other", "emptyDir": {}},
    ]


# --- lists -----------------------------------------------------------------------------------------------------------


def test_list_elements_merge_by_their_key() -> None:
    patch = {"containers": [{"name": "b", "image": "b:2", "tty": True}]}
    assert _patched({"containers": _containers("a", "b")}, patch)["containers"] == [
        {"name": "a", "image": "a:1"},
        {"name": "b", "image": "b:2", "tty": True},
    ]


def test_lists_inside_list_elements_merge_too() -> None:
    ports = [{"containerPort": 80, "name": "http"}, {"containerPort": 443}]
    spec = {"containers": [{"name": "a", "ports": ports}]}
    patch = {"containers": [{"name": "a", "ports": [{"containerPort": 443, "name": "https"}]}]}
    assert _patched(spec, patch)["containers"][0]["ports"] == [
        {"containerPort": 80, "name": "http"},
        {"containerPort": 443, "name": "https"},
    ]


def test_an_element_is_deleted_by_its_key() -> None:
    patch = {"containers": [{"$patch": "delete", "name": "a"}]}
    assert _names(_patched({"containers": _containers("a", "b")}, patch)["containers"]) == ["b"]


def test_a_merging_list_can_be_replaced_whole() -> None:
    patch = {"containers": [{"$patch": "replace"}, {"name": "c"}]}
    assert _patched({"containers": _containers("a", "b")}, patch)["containers"] == [{"name": "c"}]


def test_a_list_without_a_strategy_is_replaced() -> None:
    spec = {"tolerations": [{"key": "a"}, {"key": "b"}]}
    assert _patched(spec, {"tolerations": [{"key": "c"}]}) == {"tolerations": [{"key": "c"}]}


def test_new_elements_follow_the_live_ones_that_they_do_not_know() -> None:
    result = _patched({"containers": _containers("a", "b")}, {"containers": _containers("c", "a")})
    assert _names(result["containers"]) == ["c", "a", "b"]
    result = _patched({"containers": _containers("a", "b")}, {"containers": _containers("b", "c")})
    assert _names(result["containers"]) == ["a", "b", "c"]


def test_the_asked_order_wins_and_unnamed_elements_keep_their_neighbours() -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "d"}, {"name": "b"}],
        "containers": [{"name": "d", "image": "d:1"}],
    }
    result = _patched({"containers": _containers("a", "b", "c")}, patch)
    assert _names(result["containers"]) == ["d", "a", "b", "c"]


def test_the_order_alone_reorders() -> None:
    patch = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}
    assert _names(_patched({"containers": _containers("a", "b")}, patch)["containers"]) == ["b", "a"]


def test_scalars_are_added_to_a_merging_list() -> None:
    result = strategic.apply({"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"finalizers": ["b", "c"]}}, POD)
    assert result["metadata"]["finalizers"] == ["a", "b", "c"]


def test_scalars_are_deleted_and_ordered_by_parallel_lists() -> None:
    patch = {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["b"],
            "$setElementOrder/finalizers": ["d", "a"],
            "finalizers": ["d"],
        }
    }
    result = strategic.apply({"metadata": {"finalizers": ["a", "b", "c"]}}, patch, POD)
    assert result == {"metadata": {"finalizers": ["d", "a", "c"]}}


def test_list_directives_of_something_new_leave_no_trace() -> None:
    patch = {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "a"}], "$retainKeys": []}}
    assert strategic.apply({}, patch, POD) == {"spec": {"containers": [{"name": "a"}]}}


def test_an_order_for_an_empty_list_is_accepted() -> None:
    assert _patched({"volumes": []}, {"$setElementOrder/volumes": []}) == {"volumes": []}


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"containers": [{"image": "x"}]}, "map: map[image:x] does not contain declared merge key: name"),
        ({"containers": [{"$patch": "delete"}]}, "map: map[$patch:delete] does not contain declared merge key: name"),
        ({"containers": [{"$patch": "merge"}]}, "merging lists cannot yet be specified in the patch"),
        ({"containers": [{"$patch": "spin", "name": "a"}]}, "unknown patch type: spin in map: map[$patch:spin name:a]"),
        ({"containers": ["a"]}, "list element types are not identical: [[map[image:a:1 name:a]] [a]]"),
        ({"containers": [["a"]]}, "lists of lists are not supported"),
        ({"securityContext": {"$patch": "spin"}}, "unknown patch type: spin in map: map[$patch:spin]"),
        ({"securityContext": {"$retainKeys": "x"}}, "invalid patch format of retainKeys"),
        ({"securityContext": {"$retainKeys": [], "runAsUser": 1}}, "invalid patch format of retainKeys"),
        ({"$setElementOrder/containers": "x"}, "expected a []interface {}, but received a string"),
        ({"$setElementOrder": []}, "invalid patch format of setElementOrder list"),
        ({"$setElementOrder/nodeName": []}, "expected a []interface {}, but received a string"),
        ({"$deleteFromPrimitiveList": ["x"]}, "invalid patch format of primitive list"),
        (
            {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]},
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
        ({"nonsense": {"a": 1}}, 'unable to find api field in struct PodSpec for the json field "nonsense"'),
    ],
)
def test_a_patch_that_makes_no_sense_is_refused_in_upstreams_words(patch: dict[str, Any], message: str) -> None:
    spec = {"containers": _containers("a"), "securityContext": {"fsGroup": 1}, "nodeName": "n", "nonsense": {}}
    with pytest.raises(errors.MalformedPatch) as raised:
        _patched(spec, patch)
    assert raised.value.message == message


def test_a_patch_is_an_object() -> None:
    with pytest.raises(errors.MalformedPatch, match="invalid JSON document"):
        strategic.apply({}, [], POD)  # type: ignore[arg-type]


def test_a_patch_nested_beyond_reason_is_refused() -> None:
    patch: dict[str, Any] = {}
    for _ in range(5000):
        patch = {"a": patch}
    with pytest.raises(errors.MalformedPatch, match="exceeded max depth"):
        strategic.apply({}, patch, POD)


@pytest.mark.slow
def test_long_lists_take_time_in_proportion_to_their_length() -> None:
    many = [f"example.com/{n}" for n in range(10_000)]
    patch = {
        "metadata": {
            "finalizers": many[::-1],
            "$deleteFromPrimitiveList/finalizers": many[:-1],
            "$setElementOrder/finalizers": many[::-1],
        },
        "spec": {"containers": [{"name": name, "tty": True} for name in many]},
    }
    original = {"metadata": {"finalizers": many}, "spec": {"containers": [{"name": name} for name in many]}}
    result = strategic.apply(original, patch, POD)
    assert result["metadata"]["finalizers"] == many[-1:]
    assert result["spec"] == patch["spec"]


# --- laws ------------------------------------------------------------------------------------------------------------

words = st.sampled_from(["a", "b", "c", "d"])
env: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({"name": words, "value": words})
container: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": words},
    optional={
        "image": words,
        "args": st.lists(words, max_size=2),
        "env": st.lists(env, max_size=3, unique_by=lambda item: str(item["name"])),
    },
)
containers = st.lists(container, max_size=4, unique_by=lambda item: str(item["name"]))
pods: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "labels": st.dictionaries(words, words, max_size=3),
                "finalizers": st.lists(words, max_size=3, unique=True),
            },
        ),
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": containers, "nodeName": words, "tolerations": st.lists(st.just({"key": "a"}))}
        ),
    },
)


@pytest.mark.slow
@given(pods)
def test_an_object_patched_with_itself_stays_as_it_is(pod: dict[str, Any]) -> None:
    assert strategic.apply(pod, pod, POD) == pod


@pytest.mark.slow
@given(pods)
def test_patching_nothing_with_an_object_gives_the_object(pod: dict[str, Any]) -> None:
    assert strategic.apply({}, pod, POD) == pod


@pytest.mark.slow
@given(pods, pods)
def test_patching_twice_changes_nothing_more_and_arguments_are_not_changed(
    original: dict[str, Any], patch: dict[str, Any]
) -> None:
    before = copy.deepcopy((original, patch))
    once = strategic.apply(original, patch, POD)
    assert strategic.apply(once, patch, POD) == once
    assert (original, patch) == before


@pytest.mark.slow
@given(containers, containers)
def test_a_merged_list_holds_each_element_once_and_keeps_the_patchs_order(
    live: list[dict[str, Any]], patch: list[dict[str, Any]]
) -> None:
    merged = _names(_patched({"containers": live}, {"containers": patch})["containers"])
    assert sorted(merged) == sorted({*_names(live), *_names(patch)})
    assert [name for name in merged if name in _names(patch)] == _names(patch)
    only_live = [name for name in _names(live) if name not in _names(patch)]
    assert [name for name in merged if name in only_live] == only_live
