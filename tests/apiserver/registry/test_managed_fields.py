"""The managedFields of objects are the same, whether they come from a cached record or not."""

import copy
import json
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import scheme, times, users
from rota.api.identifiers import GroupResource, GroupVersionKind
from rota.api.kinds import ResourceType, Subresource
from rota.api.patches import apply, structural, versions
from rota.apiserver.interfaces import Attributes
from rota.apiserver.registry import managed_fields

SCHEME = scheme.builtin()


def _resource(name: str) -> Any:
    found = SCHEME.preferred(GroupResource("", name))
    assert found is not None
    return found


PODS = _resource("pods")
KNOWN = managed_fields.versions_of(PODS, SCHEME, lambda _: None)  # type: ignore[arg-type, return-value]  # for custom kinds

Documents: TypeAlias = st.SearchStrategy[dict[str, Any]]
_word = st.sampled_from(["a", "b", ""])
_amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "2"]), max_size=2)
_port: Documents = st.fixed_dictionaries(
    {"containerPort": st.sampled_from([80, 81])}, optional={"protocol": st.sampled_from(["TCP", "UDP"]), "name": _word}
)
_container: Documents = st.fixed_dictionaries(
    {"name": st.sampled_from(["c", "d"])},
    optional={
        "image": _word,
        "command": st.lists(_word, max_size=2),
        "ports": st.lists(_port, max_size=2, unique_by=lambda one: (one["containerPort"], one.get("protocol"))),
        "env": st.lists(st.fixed_dictionaries({"name": _word}, optional={"value": _word}), max_size=1),
        "resources": st.fixed_dictionaries({}, optional={"requests": _amounts, "limits": _amounts}),
    },
)
_toleration: Documents = st.fixed_dictionaries(
    {}, optional={"key": _word, "operator": _word, "tolerationSeconds": st.integers()}
)
_spec: Documents = st.fixed_dictionaries(
    {"containers": st.lists(_container, max_size=2, unique_by=lambda one: one["name"])},
    optional={
        "nodeSelector": st.dictionaries(_word, _word, max_size=2),
        "tolerations": st.lists(_toleration, max_size=2),
        "affinity": st.fixed_dictionaries({}, optional={"nodeAffinity": st.just({})}),
        "imagePullSecrets": st.lists(st.fixed_dictionaries({"name": _word}), max_size=1),
    },
)
_UIDS = [f"{number:08x}-0000-4000-8000-00000000000a" for number in range(3)]
_owner: Documents = st.fixed_dictionaries(
    {"uid": st.sampled_from([*_UIDS, "u", "v"]), "name": _word}, optional={"controller": st.booleans()}
)
_owners = st.lists(_owner, max_size=2, unique_by=lambda one: one["uid"])
_pods: Documents = st.builds(
    lambda spec, labels, owners: {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            **({"labels": labels} if labels else {}),
            **({"ownerReferences": owners} if owners else {}),
        },
        "spec": spec,
    },
    _spec,
    st.dictionaries(_word | st.sampled_from(_UIDS), _word, max_size=2),
    _owners,
)


@given(st.lists(_pods, max_size=6))
def test_records_do_not_depend_on_what_was_recorded_before(pods: list[dict[str, Any]]) -> None:
    at = Attributes(user=users.ADMINISTRATOR, verb="create", resource=PODS, now=0.0, field_manager="tests")
    for pod in pods:
        alone = apply.update(
            None,
            copy.deepcopy(pod),
            manager="tests",
            versions=KNOWN,
            now="1970-01-01T00:00:00Z",
            subresource="",
            reset=managed_fields.untouchable(at),
        )
        assert managed_fields.record(None, copy.deepcopy(pod), at, KNOWN) == alone


def test_a_label_that_is_named_like_the_owner_of_another_pod_keeps_its_name() -> None:
    """A case that random examples found: the label was recorded under the uid of the second owner."""
    at = Attributes(user=users.ADMINISTRATOR, verb="create", resource=PODS, now=0.0, field_manager="tests")
    for owner in _UIDS[:2]:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "labels": {_UIDS[0]: "a"}, "ownerReferences": [{"uid": owner, "name": "a"}]},
            "spec": {},
        }
        (entry,) = managed_fields.record(None, pod, at, KNOWN)["metadata"]["managedFields"]
        fields = entry["fieldsV1"]["f:metadata"]
        assert set(fields["f:labels"]) == {".", f"f:{_UIDS[0]}"}
        assert f'k:{{"uid":"{owner}"}}' in fields["f:ownerReferences"]


_condition: Documents = st.fixed_dictionaries(
    {"type": st.sampled_from(["Ready", "PodScheduled", "x"]), "status": _word},
    optional={"reason": _word, "lastTransitionTime": _word},
)
_state: Documents = st.fixed_dictionaries(
    {}, optional={"running": st.just({}), "waiting": st.fixed_dictionaries({}, optional={"reason": _word})}
)
_status: Documents = st.fixed_dictionaries(
    {},
    optional={
        "phase": _word,
        "podIP": _word,
        "podIPs": st.lists(st.fixed_dictionaries({"ip": _word}), max_size=2),
        # Also twice of one type, which cannot be told apart.
        "conditions": st.lists(_condition, max_size=3),
        "containerStatuses": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(["c", "d"]), "state": _state}), max_size=2
        ),
    },
)
_metadata: Documents = st.fixed_dictionaries({}, optional={"labels": st.dictionaries(_word, _word, max_size=1)})


@given(
    st.lists(st.tuples(_status, _metadata, st.sampled_from(["worker", "other"])), min_size=1, max_size=8),
    st.tuples(_owners, _owners),
)
def test_records_of_statuses_do_not_depend_on_what_was_recorded_before(
    writes: list[tuple[dict[str, Any], dict[str, Any], str]],
    owners: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    created = Attributes(user=users.ADMINISTRATOR, verb="create", resource=PODS, now=0.0, field_manager="tests")
    # The same way twice: what the first walk learned, the second uses. Times differ, and are those of the last writers.
    for begin, references in zip((10.0, 1000.0), owners, strict=True):
        of = {"ownerReferences": references} if references else {}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u", **of}, "spec": {}}
        live = managed_fields.record(None, pod, created, KNOWN)
        for number, (status, metadata, manager) in enumerate(writes):
            at = Attributes(
                user=users.ADMINISTRATOR,
                verb="update",
                resource=PODS,
                subresource="status",
                # Some in one second, as writes of short tasks are.
                now=begin + number // 2,
                field_manager=manager,
            )
            new = {**copy.deepcopy(live), "status": copy.deepcopy(status)}
            new["metadata"] |= metadata
            alone = managed_fields._record(
                copy.deepcopy(live), copy.deepcopy(new), at, KNOWN, now=times.format_time(at.now)
            )
            assert managed_fields.record(copy.deepcopy(live), copy.deepcopy(new), at, KNOWN) == alone
            live = alone


def test_pods_that_go_the_same_way_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(name: str, begin: float, owner: str) -> dict[str, Any]:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": [{"uid": owner, "name": name}]},
            "spec": {"nodeName": "n"},
        }
        at = Attributes(user=users.ADMINISTRATOR, verb="create", resource=PODS, now=begin, field_manager="tests")
        live = managed_fields.record(None, pod, at, KNOWN)
        for number, phase in enumerate(("Running", "Succeeded"), 1):
            at = Attributes(
                user=users.ADMINISTRATOR,
                verb="update",
                resource=PODS,
                subresource="status",
                now=begin + number,
                field_manager="worker",
            )
            live = managed_fields.record(live, {**live, "status": {"phase": phase, "reason": name}}, at, KNOWN)
        return live

    walk("a", 0.0, _UIDS[0])
    monkeypatch.setattr(managed_fields, "_record", None)
    entries = walk("b", 100.0, _UIDS[1])["metadata"]["managedFields"]
    assert [(one["manager"], one["time"]) for one in entries] == [
        ("tests", "1970-01-01T00:01:40Z"),
        ("worker", "1970-01-01T00:01:42Z"),
    ]
    assert f'k:{{"uid":"{_UIDS[1]}"}}' in entries[0]["fieldsV1"]["f:metadata"]["f:ownerReferences"]


_SUBRESOURCES = st.sampled_from(["", "status"])
_MANAGERS = st.sampled_from(["worker", "other", "third"])
#: A kind with every form of field: declared and not, lists as sets, by keys and as a whole.
_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "word": {"type": "string"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "anything": {"x-kubernetes-preserve-unknown-fields": True},
                "words": {"type": "object", "additionalProperties": {"type": "string"}},
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {}},
                "some": {"type": "array", "items": {"type": "string"}},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "named": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string", "default": "a"},
                            "value": {"type": "string"},
                            "more": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    },
                },
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
_json = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, 1, 1.0, "", "a"]),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(_word, below, max_size=2),
    max_leaves=5,
)
_named: Documents = st.fixed_dictionaries({}, optional={"name": _word, "value": _word, "more": _json})
_custom_spec: Documents = st.fixed_dictionaries(
    {},
    optional={
        "word": _word,
        "free": st.dictionaries(_word, _json, max_size=2),
        "anything": _json,
        "words": st.dictionaries(_word, _word, max_size=2),
        "whole": st.dictionaries(_word, _json, max_size=2),
        "some": st.lists(_word, max_size=2),
        "set": st.lists(_word, max_size=2),
        # Also twice of one name, which cannot be told apart.
        "named": st.lists(_named, max_size=3),
    },
)
_any_metadata: Documents = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(_word, _word, max_size=2),
        "annotations": st.dictionaries(_word, _word, max_size=2),
        "finalizers": st.lists(_word, max_size=2),
        "ownerReferences": _owners,
        "generation": st.integers(0, 2),
    },
)
_part: Documents = st.one_of(st.just({}), _custom_spec)
_write = st.tuples(_any_metadata, _custom_spec, _part, _MANAGERS, _SUBRESOURCES)
_custom_writes = st.lists(_write, min_size=1, max_size=6)
WIDGETS = ResourceType(
    group="example.org",
    version="v1",
    kind="Widget",
    plural="widgets",
    namespaced=True,
    subresources={
        "status": Subresource(
            name="status", kind=GroupVersionKind("example.org", "v1", "Widget"), verbs=("get", "update")
        )
    },
)
WIDGET_VERSIONS = versions.Versions(schemas={"example.org/v1": structural.from_openapi(_SCHEMA)})


@given(_custom_writes)
def test_records_of_custom_objects_do_not_depend_on_what_was_recorded_before(
    writes: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], str, str]],
) -> None:
    assert WIDGETS.custom
    created = Attributes(user=users.ADMINISTRATOR, verb="create", resource=WIDGETS, now=0.0, field_manager="tests")
    # The same way three times: what the first walk learned, the others use.
    for begin, owner in zip((10.0, 1000.0, 1000.0), _UIDS, strict=True):
        metadata = {"name": "w", "uid": "u", "ownerReferences": [{"uid": owner, "name": "o"}]}
        first = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": metadata, "spec": {"word": "a"}}
        live = managed_fields.record(None, first, created, WIDGET_VERSIONS)
        for number, (changed, spec, status, manager, subresource) in enumerate(writes):
            at = Attributes(
                user=users.ADMINISTRATOR,
                verb="update",
                resource=WIDGETS,
                subresource=subresource,
                now=begin + number // 2,
                field_manager=manager,
            )
            kept = {name: item for name, item in live["metadata"].items() if name not in changed}
            new = {**copy.deepcopy(live), "metadata": {**kept, **changed}, "spec": spec, "status": status}
            now = times.format_time(at.now)
            alone = managed_fields._record(copy.deepcopy(live), copy.deepcopy(new), at, WIDGET_VERSIONS, now=now)
            found = managed_fields.record(copy.deepcopy(live), copy.deepcopy(new), at, WIDGET_VERSIONS)
            assert json.dumps(found, sort_keys=True) == json.dumps(alone, sort_keys=True)
            live = alone


@given(st.lists(st.tuples(_pods, _MANAGERS), min_size=2, max_size=6))
def test_records_of_changed_pods_do_not_depend_on_what_was_recorded_before(
    pods: list[tuple[dict[str, Any], str]],
) -> None:
    for begin in (10.0, 1000.0):
        live: dict[str, Any] | None = None
        for number, (pod, manager) in enumerate(pods):
            new = copy.deepcopy(pod)
            new["metadata"]["uid"] = "u"
            if live is not None and "managedFields" in live["metadata"]:
                new["metadata"]["managedFields"] = copy.deepcopy(live["metadata"]["managedFields"])
            at = Attributes(
                user=users.ADMINISTRATOR, verb="update", resource=PODS, now=begin + number // 2, field_manager=manager
            )
            now = times.format_time(at.now)
            alone = managed_fields._record(copy.deepcopy(live), copy.deepcopy(new), at, KNOWN, now=now)
            assert managed_fields.record(copy.deepcopy(live), copy.deepcopy(new), at, KNOWN) == alone
            live = alone


def test_entries_that_were_written_in_another_form_are_kept() -> None:
    """As another server may have stored them: an empty subresource instead of none."""
    entry = {
        "manager": "old",
        "operation": "Update",
        "apiVersion": "v1",
        "subresource": "",
        "time": "1970-01-01T00:00:01Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:nodeName": {}}},
    }
    metadata = {"name": "p", "uid": "u", "managedFields": [entry]}
    live = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}}
    new = {**copy.deepcopy(live), "status": {"phase": "Running"}}
    at = Attributes(
        user=users.ADMINISTRATOR, verb="update", resource=PODS, subresource="status", now=5.0, field_manager="worker"
    )
    found = managed_fields.record(copy.deepcopy(live), copy.deepcopy(new), at, KNOWN)
    assert found == managed_fields._record(live, new, at, KNOWN, now=times.format_time(5.0))
    assert [one["manager"] for one in found["metadata"]["managedFields"]] == ["old", "worker"]
