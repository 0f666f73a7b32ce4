"""Server-side apply, rule by rule; agreement with upstream on random cases is in test_conformance."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from rota.api.patches import apply, errors, schemas, structural
from rota.api.patches.field_paths import path
from rota.api.patches.versions import Versions

NOW, LATER, LAST = "2024-05-01T10:00:00Z", "2024-05-01T11:00:00Z", "2024-05-01T12:00:00Z"


def _builtin(api_version: str, kind: str) -> Versions:
    schema = schemas.for_kind(api_version, kind)
    assert schema is not None
    return Versions(schemas={api_version: schema})


DEPLOYMENTS = _builtin("apps/v1", "Deployment")
PODS = _builtin("v1", "Pod")


def _deployment(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
    }


def _with_containers(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return _deployment(template={"spec": {"containers": list(containers)}}, **spec)


def _apply(live: dict[str, Any] | None, config: dict[str, Any], **options: Any) -> dict[str, Any]:
    chosen: dict[str, Any] = {"manager": "alice", "versions": DEPLOYMENTS, "now": NOW, **options}
    return apply.apply(live, config, **chosen)


def _update(live: dict[str, Any] | None, new: dict[str, Any], **options: Any) -> dict[str, Any]:
    chosen: dict[str, Any] = {"manager": "carol", "versions": DEPLOYMENTS, "now": LATER, **options}
    return apply.update(live, new, **chosen)


def _stored(obj: dict[str, Any]) -> dict[str, Any]:
    """The object as the server stores it: with a uid."""
    return {**obj, "metadata": {**obj["metadata"], "uid": "1"}}


def _owned(obj: dict[str, Any], manager: str) -> Any:
    """What a manager owns, as on the wire; None if nothing."""
    entries = [entry for entry in obj["metadata"].get("managedFields", []) if entry["manager"] == manager]
    assert len(entries) <= 1
    return entries[0]["fieldsV1"] if entries else None


def _changed(obj: dict[str, Any], *steps: str, to: Any) -> dict[str, Any]:
    result = copy.deepcopy(obj)
    place = result
    for step in steps[:-1]:
        place = place.setdefault(step, {})
    place[steps[-1]] = to
    return result


# --- applying --------------------------------------------------------------------------------------------------------


def test_an_applier_owns_what_it_applies_and_no_system_field() -> None:
    created = _apply(None, _with_containers({"name": "c", "image": "i", "ports": [{"containerPort": 80}]}, replicas=3))
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "alice",
            "operation": "Apply",
            "apiVersion": "apps/v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:spec": {
                    "f:replicas": {},
                    "f:template": {
                        "f:spec": {
                            "f:containers": {
                                'k:{"name":"c"}': {
                                    ".": {},
                                    "f:image": {},
                                    "f:name": {},
                                    "f:ports": {
                                        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}
                                    },
                                }
                            }
                        }
                    },
                }
            },
        }
    ]


def test_applying_the_same_again_changes_nothing_not_even_a_time() -> None:
    live = _stored(_apply(None, _deployment(replicas=3)))
    assert _apply(live, _deployment(replicas=3), now=LATER) == live


def test_two_appliers_with_the_same_value_share_the_field() -> None:
    live = _stored(_apply(None, _deployment(replicas=3)))
    shared = _apply(live, _deployment(replicas=3), manager="bob", now=LATER)
    assert _owned(shared, "alice") == _owned(shared, "bob") == {"f:spec": {"f:replicas": {}}}


def test_a_different_value_for_an_owned_field_is_a_conflict() -> None:
    live = _stored(_apply(None, _deployment(replicas=3)))
    live = _stored(_update(live, _changed(live, "spec", "replicas", to=5), manager="kubectl-client-side-apply"))
    with pytest.raises(errors.ApplyConflict) as raised:
        _apply(live, _deployment(replicas=3))
    [conflict] = raised.value.conflicts
    assert conflict.message == 'conflict with "kubectl-client-side-apply" using apps/v1'
    assert conflict.field == ".spec.replicas"
    assert conflict.REASON == "FieldManagerConflict"
    assert raised.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: .spec.replicas'
    )


def test_several_conflicts_are_listed_by_manager() -> None:
    live = _stored(_apply(None, _deployment(replicas=3)))
    live = _stored(_apply(live, _deployment(paused=True, minReadySeconds=1), manager="bob"))
    with pytest.raises(errors.ApplyConflict) as raised:
        _apply(live, _deployment(replicas=1, paused=False, minReadySeconds=2), manager="dora")
    assert raised.value.message == (
        "Apply failed with 3 conflicts: "
        'conflicts with "alice":\n- .spec.replicas\n'
        'conflicts with "bob":\n- .spec.minReadySeconds\n- .spec.paused'
    )


def test_force_takes_the_field_from_its_owner() -> None:
    live = _stored(_apply(None, _deployment(replicas=3, paused=True)))
    forced = _apply(live, _deployment(replicas=5), manager="bob", force=True, now=LATER)
    assert forced["spec"] == {"replicas": 5, "paused": True}
    assert _owned(forced, "bob") == {"f:spec": {"f:replicas": {}}}
    assert _owned(forced, "alice") == {"f:spec": {"f:paused": {}}}


def test_an_owner_that_loses_everything_is_forgotten() -> None:
    live = _stored(_apply(None, _deployment(replicas=3)))
    forced = _apply(live, _deployment(replicas=5), manager="bob", force=True)
    assert _owned(forced, "alice") is None


def test_what_its_only_applier_stops_applying_disappears() -> None:
    live = _stored(_apply(None, _deployment(replicas=3, paused=True)))
    assert _apply(live, _deployment(replicas=3), now=LATER)["spec"] == {"replicas": 3}


def test_what_another_applier_also_owns_stays() -> None:
    live = _stored(_apply(None, _deployment(replicas=3, paused=True)))
    live = _stored(_apply(live, _deployment(paused=True), manager="bob"))
    result = _apply(live, _deployment(replicas=3), now=LATER)
    assert result["spec"] == {"replicas": 3, "paused": True}
    assert _owned(result, "bob") == {"f:spec": {"f:paused": {}}}


def test_what_an_updater_changed_stays_when_the_applier_lets_go_of_it() -> None:
    live = _stored(_apply(None, _deployment(replicas=3, paused=True)))
    live = _stored(_update(live, _changed(live, "spec", "replicas", to=5)))
    assert _apply(live, _deployment(paused=True), now=LAST)["spec"] == {"replicas": 5, "paused": True}


def test_fields_without_an_applier_are_left_alone() -> None:
    live = _stored(_update(None, _deployment(replicas=3, paused=True)))
    result = _apply(live, _deployment(minReadySeconds=5))
    assert result["spec"] == {"replicas": 3, "paused": True, "minReadySeconds": 5}


def test_a_list_element_is_removed_with_its_last_applier() -> None:
    live = _stored(_apply(None, _with_containers({"name": "a", "image": "1"}, {"name": "b", "image": "1"})))
    result = _apply(live, _with_containers({"name": "b", "image": "1"}), now=LATER)
    assert [c["name"] for c in result["spec"]["template"]["spec"]["containers"]] == ["b"]


def test_a_list_element_with_two_owners_keeps_what_the_other_one_applied() -> None:
    live = _stored(_apply(None, _with_containers({"name": "a", "image": "1", "tty": True})))
    live = _stored(_apply(live, _with_containers({"name": "a", "stdin": True}), manager="bob"))
    emptied = _apply(live, _deployment(replicas=1), now=LATER)
    assert emptied["spec"]["template"]["spec"]["containers"] == [{"name": "a", "stdin": True}]


def test_set_elements_are_owned_one_by_one() -> None:
    def config(*finalizers: str) -> dict[str, Any]:
        metadata = {"name": "web", "finalizers": list(finalizers)}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}

    live = _stored(_apply(None, config("a", "b")))
    live = _stored(_apply(live, config("b", "c"), manager="bob"))
    assert live["metadata"]["finalizers"] == ["a", "b", "c"]
    result = _apply(live, config("d"), now=LATER)
    assert result["metadata"]["finalizers"] == ["b", "c", "d"]


def test_atomic_values_belong_to_one_owner_as_a_whole() -> None:
    live = _stored(_apply(None, _deployment(selector={"matchLabels": {"a": "1"}})))
    assert _owned(live, "alice") == {"f:spec": {"f:selector": {}}}
    with pytest.raises(errors.ApplyConflict, match=r"\.spec\.selector"):
        _apply(live, _deployment(selector={"matchLabels": {"b": "2"}}), manager="bob")


def test_the_configurations_order_wins_and_foreign_elements_come_as_early_as_the_live_order_allows() -> None:
    live = _stored(_apply(None, _with_containers({"name": "a"}, {"name": "b"}, {"name": "c"})))
    live = _stored(_apply(live, _with_containers({"name": "x"}), manager="bob"))
    result = _apply(live, _with_containers({"name": "c"}, {"name": "a"}, {"name": "b"}), now=LATER)
    assert [c["name"] for c in result["spec"]["template"]["spec"]["containers"]] == ["c", "x", "a", "b"]


def test_a_manager_without_a_name_is_unknown() -> None:
    assert _owned(_apply(None, _deployment(replicas=1), manager=""), "unknown") is not None


def test_an_applier_through_a_subresource_has_an_entry_of_its_own() -> None:
    live = _stored(_apply(None, _deployment(replicas=3)))
    status = {**_deployment(), "status": {"readyReplicas": 1}}
    result = _apply(live, status, subresource="status", reset=frozenset({path("spec")}), now=LATER)
    entries = {entry.get("subresource"): entry["fieldsV1"] for entry in result["metadata"]["managedFields"]}
    assert entries == {None: {"f:spec": {"f:replicas": {}}}, "status": {"f:status": {"f:readyReplicas": {}}}}


def test_fields_that_a_request_cannot_change_get_no_owner() -> None:
    created = _apply(
        None, {**_deployment(replicas=1), "status": {"readyReplicas": 1}}, reset=frozenset({path("status")})
    )
    assert _owned(created, "alice") == {"f:spec": {"f:replicas": {}}}


# --- objects from before, and from client-side apply -----------------------------------------------------------------


def test_an_object_without_a_record_is_owned_by_before_first_apply() -> None:
    live = _stored(_deployment(replicas=3, paused=True))
    with pytest.raises(errors.ApplyConflict, match=r'"before-first-apply" using apps/v1: \.spec\.replicas'):
        _apply(live, _deployment(replicas=5))
    result = _apply(live, _deployment(replicas=5), force=True)
    assert _owned(result, "before-first-apply") == {"f:spec": {"f:paused": {}}}


def _client_side_applied(config: dict[str, Any]) -> dict[str, Any]:
    annotations = {apply.LAST_APPLIED: json.dumps(config)}
    obj = {**config, "metadata": {**config["metadata"], "annotations": annotations}}
    return _stored(_update(None, obj, manager="kubectl-client-side-apply", now=NOW))


def test_kubectl_takes_over_what_it_had_applied_client_side() -> None:
    live = _client_side_applied(_deployment(replicas=3, paused=True))
    result = _apply(live, _deployment(replicas=5, paused=True), manager="kubectl", now=LATER)
    assert result["spec"] == {"replicas": 5, "paused": True}
    assert _owned(result, "kubectl") == {"f:spec": {"f:paused": {}, "f:replicas": {}}}


def test_kubectl_keeps_the_client_side_annotation_true() -> None:
    live = _client_side_applied(_deployment(replicas=3))
    config = _deployment(replicas=5)
    result = _apply(live, config, manager="kubectl", now=LATER)
    text = result["metadata"]["annotations"][apply.LAST_APPLIED]
    assert json.loads(text) == config
    assert text.endswith("\n")


def test_an_annotation_that_would_grow_too_long_is_dropped() -> None:
    live = _client_side_applied(_deployment(replicas=3))
    config = _with_containers({"name": "c", "image": "i" * apply.MAX_ANNOTATIONS_BYTES}, replicas=3)
    result = _apply(live, config, manager="kubectl", now=LATER)
    assert apply.LAST_APPLIED not in result["metadata"]["annotations"]


def test_kubectl_does_not_take_over_fields_changed_since() -> None:
    live = _client_side_applied(_deployment(replicas=3, paused=True))
    live = _stored(_update(live, _changed(live, "spec", "replicas", to=7), manager="hpa"))
    with pytest.raises(errors.ApplyConflict, match=r'1 conflict: conflict with "hpa" using apps/v1: \.spec\.replicas'):
        _apply(live, _deployment(replicas=5, paused=False), manager="kubectl", now=LAST)


def test_other_managers_do_not_take_over_from_client_side_apply() -> None:
    live = _client_side_applied(_deployment(replicas=3))
    with pytest.raises(errors.ApplyConflict, match="kubectl-client-side-apply"):
        _apply(live, _deployment(replicas=5), manager="flux", now=LATER)


# --- updates ---------------------------------------------------------------------------------------------------------


def test_a_creator_owns_the_fields_it_set_but_not_the_structs_that_are_always_there() -> None:
    created = _update(None, _with_containers({"name": "c", "image": "i"}, replicas=3), manager="kubectl-create")
    assert _owned(created, "kubectl-create") == {
        "f:spec": {
            "f:replicas": {},
            "f:template": {
                "f:spec": {
                    "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}}
                }
            },
        }
    }


def test_an_update_takes_changed_fields_from_all_owners() -> None:
    live = _stored(_apply(None, _deployment(replicas=3, paused=True)))
    result = _update(live, _changed(live, "spec", "replicas", to=5))
    assert _owned(result, "alice") == {"f:spec": {"f:paused": {}}}
    assert _owned(result, "carol") == {"f:spec": {"f:replicas": {}}}


def test_fields_that_an_update_removes_have_no_owner() -> None:
    live = _stored(_apply(None, _deployment(replicas=3, paused=True)))
    new = copy.deepcopy(live)
    del new["spec"]["paused"]
    result = _update(live, new)
    assert _owned(result, "alice") == {"f:spec": {"f:replicas": {}}}
    assert _owned(result, "carol") is None


def test_an_update_that_changes_nothing_records_nothing() -> None:
    live = _stored(_apply(None, _deployment(replicas=3)))
    assert _update(live, live) == live


def test_an_updaters_entry_grows_with_each_change_and_shows_the_last_time() -> None:
    live = _stored(_update(None, _deployment(replicas=3), now=NOW))
    live = _stored(_update(live, _changed(live, "spec", "paused", to=True), now=LATER))
    [entry] = live["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {"f:paused": {}, "f:replicas": {}}}
    assert entry["time"] == LATER


def test_a_status_update_has_an_entry_of_its_own() -> None:
    live = _stored(_update(None, _deployment(replicas=3)))
    result = _update(live, {**live, "status": {"readyReplicas": 1}}, subresource="status", now=LAST)
    by_subresource = {entry.get("subresource"): entry["fieldsV1"] for entry in result["metadata"]["managedFields"]}
    assert by_subresource["status"] == {"f:status": {"f:readyReplicas": {}}}


def test_system_fields_are_never_owned() -> None:
    live = _stored(_update(None, _deployment(replicas=3)))
    new = {**live, "metadata": {**live["metadata"], "resourceVersion": "7", "generation": 2, "labels": {"a": "b"}}}
    assert _owned(_update(live, new, manager="dora"), "dora") == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}


def test_a_client_that_drops_managed_fields_does_not_destroy_them() -> None:
    live = _stored(_apply(None, _deployment(replicas=3)))
    assert _update(live, _stored(_deployment(replicas=3))) == live


def test_a_client_may_edit_managed_fields() -> None:
    live = _stored(_apply(None, _deployment(replicas=3, paused=True)))
    entry = {**live["metadata"]["managedFields"][0], "fieldsV1": {"f:spec": {"f:paused": {}}}}
    new = {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}
    assert _owned(_update(live, new), "alice") == {"f:spec": {"f:paused": {}}}


@pytest.mark.parametrize("reset", [[], [{}]])
def test_a_client_may_reset_managed_fields(reset: list[Any]) -> None:
    live = _stored(_apply(None, _deployment(replicas=3)))
    result = _update(live, {**live, "metadata": {**live["metadata"], "managedFields": reset}})
    assert "managedFields" not in result["metadata"]


def test_managed_fields_sent_through_a_subresource_are_ignored() -> None:
    live = _stored(_apply(None, _deployment(replicas=3)))
    new = {**live, "metadata": {**live["metadata"], "managedFields": []}}
    assert _update(live, new, subresource="status") == live


def test_managed_fields_that_make_no_sense_are_ignored() -> None:
    live = _stored(_apply(None, _deployment(replicas=3)))
    new = {**live, "metadata": {**live["metadata"], "managedFields": [{"operation": "Nonsense"}]}}
    assert _update(live, new) == live


def test_an_object_that_was_never_tracked_stays_untracked_by_updates() -> None:
    live = _stored(_deployment(replicas=3))
    assert "managedFields" not in _update(live, _changed(live, "spec", "replicas", to=5))["metadata"]


def test_an_eleventh_updater_makes_the_oldest_ones_ancient() -> None:
    live = _stored(_update(None, _deployment(replicas=0), now="2024-01-01T00:00:00Z"))
    for n in range(1, 12):
        new = _changed(live, "metadata", "annotations", f"a{n}", to="x")
        live = _stored(_update(live, new, manager=f"m{n:02}", now=f"2024-01-01T00:00:{n:02}Z"))
    names = [entry["manager"] for entry in live["metadata"]["managedFields"]]
    assert len(names) == 10
    assert "ancient-changes" in names


def test_lists_with_duplicate_keys_do_not_block_an_update() -> None:
    live = _stored(_apply(None, _deployment(replicas=3)))
    new = _changed(live, "spec", "template", to={"spec": {"containers": [None]}})
    assert _update(live, new)["metadata"]["managedFields"] == live["metadata"]["managedFields"]


# --- versions, schemas and what is refused ---------------------------------------------------------------------------


def _widget(version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def _widgets(**spec: Any) -> schemas.TypeSchema:
    return structural.from_openapi({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}})


LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
TWO_VERSIONS = Versions(
    schemas={f"example.com/{v}": _widgets(size={"type": "integer"}, labels=LABELS) for v in ("v1", "v2")}
)


def test_an_applier_may_move_to_another_version_and_still_lets_go() -> None:
    live = _stored(_apply(None, _widget("v1", size=1, labels={"a": "b"}), versions=TWO_VERSIONS))
    result = _apply(live, _widget("v2", size=1), versions=TWO_VERSIONS, now=LATER)
    assert result["spec"] == {"size": 1}
    [entry] = result["metadata"]["managedFields"]
    assert (entry["apiVersion"], entry["fieldsV1"]) == ("example.com/v2", {"f:spec": {"f:size": {}}})


def test_conflicts_are_found_across_versions() -> None:
    live = _stored(_apply(None, _widget("v1", size=1), versions=TWO_VERSIONS))
    with pytest.raises(errors.ApplyConflict, match=r"\.spec\.size"):
        _apply(live, _widget("v2", size=2), manager="bob", versions=TWO_VERSIONS)


def test_owners_in_a_version_that_is_no_longer_served_are_forgotten() -> None:
    live = _stored(_apply(None, _widget("v1", size=1), versions=TWO_VERSIONS))
    only_v2 = Versions(schemas={"example.com/v2": TWO_VERSIONS.schemas["example.com/v2"]})
    result = _apply({**live, "apiVersion": "example.com/v2"}, _widget("v2", size=2), manager="bob", versions=only_v2)
    assert _owned(result, "alice") is None


def test_a_custom_conversion_is_used_between_versions() -> None:
    def convert(obj: dict[str, Any], version: str) -> dict[str, Any]:
        old, new = ("size", "width") if version == "example.com/v2" else ("width", "size")
        spec = {new if name == old else name: value for name, value in obj["spec"].items()}
        return {**obj, "apiVersion": version, "spec": spec}

    versions = Versions(
        schemas={
            "example.com/v1": _widgets(size={"type": "integer"}),
            "example.com/v2": _widgets(width={"type": "integer"}),
        },
        convert=convert,
    )
    live = _stored(_apply(None, _widget("v1", size=1), versions=versions))
    with pytest.raises(errors.ApplyConflict, match=r'"alice": \.spec\.size'):
        _apply(live, _widget("v2", width=2), manager="bob", versions=versions)


def test_owners_follow_a_schema_that_became_atomic() -> None:
    granular = Versions(schemas={"example.com/v1": _widgets(labels=LABELS)})
    atomic = Versions(schemas={"example.com/v1": _widgets(labels={**LABELS, "x-kubernetes-map-type": "atomic"})})
    live = _stored(_apply(None, _widget("v1", labels={"a": "b"}), versions=granular))
    assert _owned(live, "alice") == {"f:spec": {"f:labels": {"f:a": {}}}}
    with pytest.raises(errors.ApplyConflict, match=r'"alice": \.spec\.labels'):
        _apply(live, _widget("v1", labels={"c": "d"}), manager="bob", versions=atomic)


def test_without_a_schema_lists_are_one_value_and_maps_merge() -> None:
    versions = Versions(schemas={"example.com/v1": schemas.DEDUCED})
    live = _stored(_apply(None, _widget("v1", items=[{"name": "a"}], deep={"x": 1}), versions=versions))
    result = _apply(live, _widget("v1", deep={"y": 2}), manager="bob", versions=versions)
    assert result["spec"]["deep"] == {"x": 1, "y": 2}
    with pytest.raises(errors.ApplyConflict, match=r"\.spec\.items"):
        _apply(live, _widget("v1", items=[{"name": "b"}]), manager="bob", versions=versions)


def test_a_value_that_turns_from_true_into_one_has_changed() -> None:
    versions = Versions(schemas={"example.com/v1": schemas.DEDUCED})
    live = _stored(_apply(None, _widget("v1", flag=True, deep={"flag": True}), versions=versions))
    result = _update(live, _widget("v1", flag=1, deep={"flag": 1}), versions=versions)
    assert _owned(result, "carol") == {"f:spec": {"f:deep": {"f:flag": {}}, "f:flag": {}}}


@pytest.mark.slow
def test_long_lists_take_time_in_proportion_to_their_length() -> None:
    many = [f"example.com/{n}" for n in range(10_000)]
    metadata = {"name": "web", "finalizers": many}
    config = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
    live = _stored(_apply(None, config))
    reordered = {**config, "metadata": {**metadata, "finalizers": [*reversed(many), "example.com/new"]}}
    assert _apply(live, reordered, now=LATER)["metadata"]["finalizers"][-1] == "example.com/new"


@pytest.mark.parametrize("metadata", [None, [], "x"])
def test_metadata_that_is_no_object_is_no_crash(metadata: Any) -> None:
    broken = {**_deployment(replicas=1), "metadata": metadata}
    assert _owned(_update(None, broken), "carol") is not None
    with pytest.raises(errors.MalformedPatch):
        _apply(None, {**broken, "metadata": metadata or [], "spec": 5})


def test_a_null_in_the_configuration_is_kept_and_owned() -> None:
    result = _apply(None, _deployment(replicas=None))
    assert result["spec"] == {"replicas": None}
    assert _owned(result, "alice") == {"f:spec": {"f:replicas": {}}}


PREFIX = "failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): "


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (_deployment(replicas="3"), PREFIX + ".spec.replicas: expected numeric (int or float), got string"),
        (_deployment(replicas=True), PREFIX + ".spec.replicas: expected numeric (int or float), got bool"),
        (_deployment(paused="yes"), PREFIX + ".spec.paused: expected boolean, got &{yes}"),
        (_deployment(nonsense=1), PREFIX + ".spec.nonsense: field not declared in schema"),
        (_deployment(template=[1]), PREFIX + ".spec.template: expected map, got &{[1]}"),
        (
            _with_containers({"name": 5}),
            PREFIX + ".spec.template.spec.containers[name=5].name: "
            "expected string, got &value.valueUnstructured{Value:5}",
        ),
        (
            _deployment(template={"spec": {"containers": {"a": 1}}}),
            PREFIX + ".spec.template.spec.containers: expected list, got &{map[a:1]}",
        ),
        (
            _with_containers({"name": "a"}, {"name": "a"}),
            PREFIX + '.spec.template.spec.containers: duplicate entries for key [name="a"]',
        ),
        (
            _deployment(template={"spec": {"containers": [None]}}),
            PREFIX + ".spec.template.spec.containers: element 0: "
            "associative list with keys may not have a null element",
        ),
        (
            _deployment(replicas="3", paused="yes"),
            PREFIX + "errors:\n  .spec.replicas: expected numeric (int or float), got string\n"
            "  .spec.paused: expected boolean, got &{yes}",
        ),
        (
            {**_deployment(), "metadata": {"name": "web", "managedFields": []}},
            "metadata.managedFields must be nil",
        ),
        ({**_deployment(), "apiVersion": "apps/v9"}, "invalid object type: apps/v9, Kind=Deployment"),
        ({"kind": "Deployment"}, "invalid object type: /, Kind=Deployment"),
        ({**_deployment(), "apiVersion": 7}, "invalid object type: /7, Kind=Deployment"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.MalformedPatch) as raised:
        _apply(None, config)
    assert raised.value.message == message


def test_a_configuration_of_another_kind_is_refused() -> None:
    live = _stored(_apply(None, _deployment(replicas=1)))
    with pytest.raises(errors.MalformedPatch, match="invalid object type: apps/v1, Kind=ReplicaSet"):
        _apply(live, {**_deployment(replicas=1), "kind": "ReplicaSet"})


def test_a_stored_record_that_cannot_be_read_stops_an_apply() -> None:
    live = _stored({**_deployment(), "metadata": {"name": "web", "managedFields": [{"operation": "Nonsense"}]}})
    with pytest.raises(errors.MalformedPatch, match="failed to decode managed fields: operation must be"):
        _apply(live, _deployment(replicas=1))


def test_a_stored_object_that_does_not_fit_its_schema_stops_an_apply() -> None:
    live = _stored(_deployment(template={"spec": {"containers": [None]}}))
    live["metadata"]["managedFields"] = _apply(None, _deployment(replicas=1))["metadata"]["managedFields"]
    with pytest.raises(errors.MalformedPatch, match=r"failed to create typed live object \(shop/web; apps/v1"):
        _apply(live, _with_containers({"name": "a"}))


def test_a_configuration_nested_beyond_reason_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(errors.MalformedPatch, match="exceeded max depth"):
        _apply(None, _widget("v1", **deep), versions=Versions(schemas={"example.com/v1": schemas.DEDUCED}))


def test_pods_of_containers_with_port_defaults_are_the_same_element_with_and_without_the_default() -> None:
    def pod(**port: Any) -> dict[str, Any]:
        container = {"name": "c", "ports": [{"containerPort": 80, **port}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}

    live = _stored(_apply(None, pod(), versions=PODS))
    result = _apply(live, pod(protocol="TCP", name="http"), manager="bob", versions=PODS)
    assert result["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "name": "http"}]
    ports = _owned(result, "bob")["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"]
    assert list(ports) == ['k:{"containerPort":80,"protocol":"TCP"}']
