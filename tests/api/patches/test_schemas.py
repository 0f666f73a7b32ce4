"""The facts about built-in kinds, and schemas of custom kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rota.api.patches import errors, schemas, structural
from rota.api.patches.schemas import Field, ListSchema, MapSchema, TypeSchema


def _at(api_version: str, kind: str, *path: str) -> Field:
    """The field at a path; lists are entered without naming an element."""
    schema = schemas.for_kind(api_version, kind)
    found = None
    for name in path:
        assert schema is not None
        if schema.items is not None and schema.map is None:
            schema = schema.items.element
        assert schema.map is not None
        found = schema.map.fields[name]
        schema = found.type
    assert found is not None
    return found


def _list(field: Field) -> ListSchema:
    assert field.type.items is not None
    return field.type.items


def _map(schema: TypeSchema | None) -> MapSchema:
    assert schema is not None
    assert schema.map is not None
    return schema.map


def test_containers_merge_by_name() -> None:
    containers = _at("v1", "Pod", "spec", "containers")
    assert _list(containers).relation == "map"
    assert _list(containers).keys == ("name",)
    assert containers.strategies == {"merge"}
    assert containers.merge_key == "name"


def test_ports_are_keyed_by_number_and_protocol_with_tcp_as_default() -> None:
    ports = _at("v1", "Pod", "spec", "containers", "ports")
    assert _list(ports).keys == ("containerPort", "protocol")
    assert _list(ports).key_defaults["protocol"] == "TCP"
    assert ports.merge_key == "containerPort", "strategic merge knows one key only"
    service_ports = _list(_at("v1", "Service", "spec", "ports"))
    assert service_ports.keys == ("port", "protocol")
    assert service_ports.key_defaults["protocol"] == "TCP"


def test_finalizers_are_a_set() -> None:
    finalizers = _at("v1", "Pod", "metadata", "finalizers")
    assert _list(finalizers).relation == "set"
    assert finalizers.strategies == {"merge"}
    assert finalizers.merge_key == ""


def test_taints_and_tolerations_are_replaced_whole() -> None:
    assert _list(_at("v1", "Node", "spec", "taints")).relation == "atomic"
    assert _list(_at("v1", "Pod", "spec", "tolerations")).relation == "atomic"


def test_volumes_merge_and_retain_keys() -> None:
    assert _at("v1", "Pod", "spec", "volumes").strategies == {"merge", "retainKeys"}
    assert _at("apps/v1", "Deployment", "spec", "strategy").strategies == {"retainKeys"}


def test_selectors_are_atomic_and_labels_are_not() -> None:
    assert _map(_at("apps/v1", "Deployment", "spec", "selector").type).atomic
    assert _map(_at("v1", "Service", "spec", "selector").type).atomic
    assert not _map(_at("v1", "Pod", "metadata", "labels").type).atomic


def test_a_field_may_override_whether_its_type_is_atomic() -> None:
    assert not _map(_at("v1", "PersistentVolume", "spec", "claimRef").type).atomic
    assert _map(_at("v1", "Event", "involvedObject").type).atomic, "the same type without an override"


def test_quantities_times_and_int_or_string_are_scalars_of_any_type() -> None:
    limits = _map(_at("v1", "Pod", "spec", "containers", "resources", "limits").type)
    assert limits.element is schemas.UNTYPED
    assert _at("v1", "Service", "spec", "ports", "targetPort").type is schemas.UNTYPED
    assert _at("v1", "Pod", "metadata", "creationTimestamp").type is schemas.UNTYPED


def test_an_embedded_object_is_one_opaque_value() -> None:
    assert _at("apps/v1", "ControllerRevision", "data").type is schemas.OPAQUE


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "Widget"), ("example.com/v1", "Pod"), ("apps/v1beta1", "Deployment"), ("v1", "PodList"), ("", "")],
)
def test_kinds_that_are_not_built_in_have_no_schema(api_version: str, kind: str) -> None:
    assert schemas.for_kind(api_version, kind) is None


def test_schemas_are_built_once() -> None:
    assert schemas.for_kind("v1", "Pod") is schemas.for_kind("v1", "Pod")


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Pod"),
        ("v1", "Node"),
        ("v1", "Binding"),
        ("v1", "Event"),
        ("v1", "Namespace"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("policy/v1", "PodDisruptionBudget"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
        ("coordination.k8s.io/v1", "Lease"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("autoscaling/v1", "Scale"),
    ],
)
def test_every_kind_that_rota_serves_is_there_with_its_metadata(api_version: str, kind: str) -> None:
    metadata = _at(api_version, kind, "metadata").type
    assert metadata is schemas.object_meta()


@pytest.mark.slow
def test_all_types_build_and_are_sound() -> None:
    table = schemas._builtin()
    seen: set[int] = set()
    for api_version, kinds in table.kinds.items():
        for kind in kinds:
            schema = schemas.for_kind(api_version, kind)
            assert schema is not None
            for node in _walk(schema, seen):
                assert node.scalar or node.items or node.map
                if node.items is not None and node.items.relation == "map":
                    fields = _map(node.items.element).fields
                    assert set(node.items.keys) <= fields.keys()
                    assert node.items.key_defaults.keys() <= set(node.items.keys)
                if node.map is not None:
                    assert node.map.present.keys() <= node.map.fields.keys()
    assert len(seen) > 1000


def _walk(schema: TypeSchema, seen: set[int]) -> Iterator[TypeSchema]:
    if id(schema) in seen:
        return
    seen.add(id(schema))
    yield schema
    if schema.items is not None:
        yield from _walk(schema.items.element, seen)
    if schema.map is not None:
        for field in schema.map.fields.values():
            yield from _walk(field.type, seen)
        if schema.map.element is not None:
            yield from _walk(schema.map.element, seen)


# --- custom kinds ----------------------------------------------------------------------------------------------------


def _custom(**properties: Any) -> MapSchema:
    return _map(structural.from_openapi({"type": "object", "properties": properties}))


def test_a_custom_kind_gets_the_fields_that_every_object_has() -> None:
    fields = _custom(spec={"type": "object"}).fields
    assert fields["metadata"].type is schemas.object_meta()
    assert fields["apiVersion"].type is schemas.STRING


def test_custom_lists_are_atomic_unless_they_say_otherwise() -> None:
    strings = {"type": "array", "items": {"type": "string"}}
    fields = _custom(plain=strings, a_set={**strings, "x-kubernetes-list-type": "set"}).fields
    assert _list(fields["plain"]).relation == "atomic"
    assert _list(fields["a_set"]).relation == "set"


def test_custom_list_maps_take_defaults_of_keys_from_the_element() -> None:
    item = {
        "type": "object",
        "properties": {"port": {"type": "integer"}, "proto": {"type": "string", "default": "TCP"}},
    }
    ports = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "proto"],
    }
    schema = _list(_custom(ports=ports).fields["ports"])
    assert (schema.relation, schema.keys, schema.key_defaults) == ("map", ("port", "proto"), {"proto": "TCP"})


def test_a_custom_list_map_without_keys_is_refused() -> None:
    with pytest.raises(errors.MalformedPatch, match="list-map-keys"):
        _custom(ports={"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"})


def test_custom_maps_are_granular_unless_they_say_otherwise() -> None:
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    fields = _custom(labels=labels, whole={**labels, "x-kubernetes-map-type": "atomic"}).fields
    assert not _map(fields["labels"].type).atomic
    assert _map(fields["whole"].type).atomic


def test_unknown_fields_are_allowed_only_where_the_schema_keeps_them() -> None:
    struct = {"type": "object", "properties": {"a": {"type": "string"}}}
    fields = _custom(
        closed=struct,
        kept={**struct, "x-kubernetes-preserve-unknown-fields": True},
        free={"type": "object"},
        shut={"type": "object", "additionalProperties": False},
        open={"type": "object", "additionalProperties": True},
    ).fields
    assert _map(fields["closed"].type).element is None
    assert _map(fields["kept"].type).element is schemas.DEDUCED
    assert _map(fields["free"].type).element is schemas.DEDUCED
    assert _map(fields["shut"].type).element is None
    assert _map(fields["open"].type).element is schemas.DEDUCED


def test_int_or_string_is_any_value_and_dates_are_scalars_of_any_type() -> None:
    fields = _custom(
        port={"x-kubernetes-int-or-string": True}, at={"type": "string", "format": "date-time"}, on={"type": "boolean"}
    ).fields
    assert fields["port"].type.scalar == "untyped"
    assert fields["at"].type is schemas.UNTYPED
    assert fields["on"].type is schemas.BOOLEAN


def test_an_embedded_resource_is_a_whole_object() -> None:
    template = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    assert _map(_custom(template=template).fields["template"].type).fields["metadata"].type is schemas.object_meta()
