"""What a pod gets from its runtime class, with the stock server's messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.apiserver.admission import runtime_classes
from rota.testing.api import Answer, ApiServer

_PODS = "/api/v1/namespaces/default/pods"
_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
_UNASKED = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
_DEFAULTS = [
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for what in ("not-ready", "unreachable")
]


async def _create(api: ApiServer, **spec: Any) -> Answer:
    spec = {"containers": [{"name": "c", "image": "x"}], **spec}
    return await api.post(_PODS, {"metadata": {"name": "p"}, "spec": spec})


@pytest.fixture
async def classes(api: ApiServer) -> ApiServer:
    tolerated = [
        {"key": "k", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "l", "operator": "Equal", "value": "v"},
    ]
    named: dict[str, dict[str, Any]] = {
        "plain": {},
        "heavy": {"overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}}},
        "placed": {"scheduling": {"nodeSelector": {"a": "b"}, "tolerations": tolerated}},
    }
    for name, more in named.items():
        assert (await api.post(_CLASSES, {"metadata": {"name": name}, "handler": "h", **more})).code == 201
    return api


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        ({"overhead": {"cpu": "1"}}, _UNASKED),
        ({"runtimeClassName": "plain", "overhead": {"cpu": "1"}}, _UNASKED),
        (
            {"runtimeClassName": "heavy", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"runtimeClassName": "placed", "nodeSelector": {"a": "c"}},
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c",
        ),
    ],
)
async def test_what_contradicts_its_class_is_forbidden(classes: ApiServer, spec: dict[str, Any], why: str) -> None:
    answer = await _create(classes, **spec)
    assert (answer.code, answer.json["message"]) == (403, f'pods "p" is forbidden: {why}')


@pytest.mark.parametrize("given", [None, {"cpu": "0.25", "memory": "65536Ki"}])
async def test_overhead_is_that_of_the_class(classes: ApiServer, given: dict[str, str] | None) -> None:
    spec = (await _create(classes, runtimeClassName="heavy", overhead=given)).json["spec"]
    assert spec["overhead"] == {"cpu": "250m", "memory": "64Mi"}


async def test_nodes_are_those_of_both_and_tolerations_those_of_either(classes: ApiServer) -> None:
    tolerations = [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}, {"key": "k", "operator": "Exists"}]
    asked = {"nodeSelector": {"x": "y"}, "tolerations": tolerations}
    spec = (await _create(classes, runtimeClassName="placed", **asked)).json["spec"]
    assert spec["nodeSelector"] == {"a": "b", "x": "y"}
    assert spec["tolerations"] == [
        {"key": "k", "operator": "Exists"}, *_DEFAULTS, {"key": "l", "operator": "Equal", "value": "v"}
    ]  # fmt: skip


async def test_the_ways_in_which_workers_run_containers_are_there(api: ApiServer) -> None:
    spec = (await _create(api, runtimeClassName="container")).json["spec"]
    assert spec["nodeSelector"] == {"rota.dev/containers": "true"}
    await api.delete(f"{_PODS}/p?gracePeriodSeconds=0")
    assert (await _create(api, runtimeClassName="process")).code == 201


async def test_a_class_that_changes_counts_for_pods_that_equal_earlier_ones(classes: ApiServer) -> None:
    for number in range(4):
        made = await classes.post(_PODS, {"metadata": {"name": f"p{number}"}, "spec": _like()})
        assert made.json["spec"]["overhead"]["cpu"] == "250m"
    await classes.delete(f"{_CLASSES}/heavy")
    other = {"metadata": {"name": "heavy"}, "handler": "h", "overhead": {"podFixed": {"cpu": "1"}}}
    assert (await classes.post(_CLASSES, other)).code == 201
    made = await classes.post(_PODS, {"metadata": {"name": "last"}, "spec": _like()})
    assert made.json["spec"]["overhead"] == {"cpu": "1"}


def _like() -> dict[str, Any]:
    return {"runtimeClassName": "heavy", "containers": [{"name": "c", "image": "x"}]}


_SOME = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["a", "b"]),
        "operator": st.sampled_from(["Exists", "Equal"]),
        "value": st.sampled_from(["x", "y"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
        "tolerationSeconds": st.sampled_from([10, 20]),
    },
)


@given(st.lists(_SOME, max_size=6))
def test_merging_keeps_some_of_what_was_given_in_order_and_never_needs_to_be_repeated(
    given: list[dict[str, Any]],
) -> None:
    kept = runtime_classes.merged(given)
    places = iter(given)
    assert all(one in places for one in kept)
    assert runtime_classes.merged(kept) == kept
    assert all(any(runtime_classes.covers(one, other) for one in kept) for other in given)
