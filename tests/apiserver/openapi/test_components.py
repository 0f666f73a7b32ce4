import msgspec
import pytest

from rota.api import scheme
from rota.api.models import _schema
from rota.apiserver.openapi import annotations, components, descriptions

_POD_SPEC = "io.k8s.api.core.v1.PodSpec"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("core_v1.Pod", "io.k8s.api.core.v1.Pod"),
        ("meta_v1.ObjectMeta", components.OBJECT_META),
        ("admissionregistration_v1beta1.Mutation", "io.k8s.api.admissionregistration.v1beta1.Mutation"),
        (
            "apiextensions_v1.JSONSchemaProps",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
        ),
        ("apiregistration_v1.APIService", "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService"),
    ],
)
def test_components_are_named_after_the_place_of_their_type_in_kubernetes(model: str, name: str) -> None:
    assert components.name_of_model(model) == name
    assert components.component(name)["type"] == "object"


def test_a_field_has_its_exact_type_and_its_text() -> None:
    port = components.component("io.k8s.api.core.v1.ContainerPort")
    assert port["required"] == ["containerPort"]
    field = port["properties"]["containerPort"]
    assert (field["type"], field["format"]) == ("integer", "int32")
    assert field["description"].startswith("Number of port to expose on the pod's IP address.")
    assert components.component(_POD_SPEC)["properties"]["activeDeadlineSeconds"]["format"] == "int64"


def test_scalars_with_a_meaning_have_components_of_their_own() -> None:
    limits = components.component("io.k8s.api.core.v1.ResourceRequirements")["properties"]["limits"]
    assert limits["additionalProperties"] == components.reference(components.QUANTITY)
    port = components.component("io.k8s.api.core.v1.ServicePort")["properties"]["targetPort"]
    assert port["allOf"] == [components.reference(components.INT_OR_STRING)]
    assert components.component(components.INT_OR_STRING)["format"] == "int-or-string"
    created = components.component(components.OBJECT_META)["properties"]["creationTimestamp"]["allOf"][0]
    assert components.component(next(components.references(created)))["format"] == "date-time"
    assert components.component("io.k8s.api.core.v1.Secret")["properties"]["data"]["additionalProperties"] == {
        "type": "string",
        "format": "byte",
    }


def test_references_stand_alone_so_that_descriptions_beside_them_count() -> None:
    spec = components.component("io.k8s.api.core.v1.Pod")["properties"]["spec"]
    assert spec["allOf"] == [components.reference(_POD_SPEC)]
    assert "$ref" not in spec
    assert "desired behavior of the pod" in spec["description"]


def test_lists_and_maps_say_how_they_merge() -> None:
    spec = components.component(_POD_SPEC)["properties"]
    containers = spec["containers"]
    assert containers["x-kubernetes-list-type"] == "map"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert spec["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    assert spec["tolerations"]["x-kubernetes-list-type"] == "atomic"
    assert spec["nodeSelector"]["x-kubernetes-map-type"] == "atomic"
    assert components.component("io.k8s.api.core.v1.ObjectReference")["x-kubernetes-map-type"] == "atomic"
    finalizers = components.component(components.OBJECT_META)["properties"]["finalizers"]
    assert finalizers["x-kubernetes-list-type"] == "set"


def test_fields_of_embedded_structs_stand_beside_the_others() -> None:
    volume = components.component("io.k8s.api.core.v1.Volume")["properties"]
    assert {"name", "emptyDir", "configMap"} <= volume.keys()


@pytest.mark.slow
def test_every_built_in_type_can_be_described() -> None:
    kinds = scheme.builtin()
    names = {components.name_of_model(one.model) for one in kinds if one.model}
    found = components.closure(names)
    assert names <= found.keys()
    assert set(components.references(found)) <= found.keys()
    assert list(found) == sorted(found)
    undescribed = [name for name in names if not found[name].get("description")]
    assert undescribed == []


def test_our_own_types_are_described_by_their_annotations() -> None:
    name = components.name_of_model("rota_v1alpha1.BindingBatch")
    assert name == "dev.rota.v1alpha1.BindingBatch"
    found = components.closure([name])
    batch = found[name]["properties"]
    assert batch["bindings"]["items"] == components.reference("io.k8s.api.core.v1.Binding")
    assert batch["verdicts"]["items"] == components.reference("dev.rota.v1alpha1.BindingVerdict")
    assert (batch["atomic"]["type"], batch["bound"]["type"], batch["kind"]["type"]) == ("boolean", "integer", "string")
    assert batch["metadata"]["allOf"] == [components.reference(components.OBJECT_META)]
    assert found[name]["required"] == ["bindings"]
    assert "dev.rota.v1alpha1.BindingVerdict" in found


def test_annotations_with_a_meaning_become_what_they_mean() -> None:
    class Sample(msgspec.Struct):
        amount: _schema.Quantity
        amounts: dict[str, _schema.Quantity] | None
        port: int | str | None
        when: _schema.MicroTime | None
        any_thing: object

    special = {"quantity": {"type": "q"}, "microtime": {"type": "m"}, "intorstring": {"type": "i"}}
    found = [
        annotations.schema_of(field.type, struct=lambda _struct: {}, special=special)
        for field in msgspec.structs.fields(Sample)
    ]
    assert found == [
        {"type": "q"},
        {"type": "object", "additionalProperties": {"type": "q"}},
        {"type": "i"},
        {"type": "m"},
        {"x-kubernetes-preserve-unknown-fields": True},
    ]


def test_wrapped_lines_are_joined_and_paragraphs_are_kept() -> None:
    class Sample(msgspec.Struct):
        __doc__ = """Two lines that
      are one.

      Another paragraph.

      **parameters**

      * **first** ``Optional[Dict[str, str]]`` - Again
        two lines.
      * **second** ``str`` -
    """

    described = descriptions.of(Sample)
    assert described.text == "Two lines that are one.\n\nAnother paragraph."
    assert described.fields == {"first": "Again two lines.", "second": ""}
