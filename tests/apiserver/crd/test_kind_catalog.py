import copy
from typing import Any

import pytest

from rota.api import scheme
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver.crd import definitions, names, registration
from rota.apiserver.crd.kind_catalog import CustomKindCatalog
from rota.apiserver.interfaces import CustomSchema

Definition = dict[str, Any]


@pytest.fixture
def served(definition: Definition) -> Definition:
    definitions.set_defaults(definition)
    taken = names.claims(definition, (), ())
    return {**definition, "status": names.status(definition, taken, now=0)}


@pytest.fixture
def kinds() -> scheme.Scheme:
    return scheme.builtin()


def _widget(kinds: scheme.Scheme, version: str = "v1") -> ResourceType:
    found = kinds.by_resource("shop.example.com", version, "widgets")
    assert found is not None
    return found


def test_a_served_definition_puts_its_kind_into_the_scheme(kinds: scheme.Scheme, served: Definition) -> None:
    CustomKindCatalog(kinds).put(served)
    widget = _widget(kinds)
    assert (widget.kind, widget.singular, widget.list_kind) == ("Widget", "widget", "WidgetList")
    assert (widget.short_names, widget.categories, widget.namespaced) == (("wd",), ("all",), True)
    assert sorted(widget.subresources) == ["scale", "status"]
    assert widget.subresources["status"].kind == widget.gvk
    assert kinds.find("wd") is widget


def test_a_definition_is_not_served_before_its_names_are_accepted(kinds: scheme.Scheme, definition: Definition) -> None:
    definitions.set_defaults(definition)
    catalog = CustomKindCatalog(kinds)
    catalog.put(definition)
    assert kinds.versions(GroupResource("shop.example.com", "widgets")) == ()
    assert catalog.definitions == (definition,)


def test_only_served_versions_are_there_and_each_has_its_own_schema(kinds: scheme.Scheme, served: Definition) -> None:
    first = served["spec"]["versions"][0]
    second = copy.deepcopy(first) | {"name": "v2", "storage": False, "deprecated": True}
    del second["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"]
    second.pop("selectableFields")
    third = copy.deepcopy(second) | {"name": "v3", "served": False}
    served["spec"]["versions"] = [first, second, third]
    catalog = CustomKindCatalog(kinds)
    catalog.put(served)
    assert [one.version for one in kinds.versions(GroupResource("shop.example.com", "widgets"))] == ["v2", "v1"]
    obj = {"metadata": {"name": "n"}, "spec": {"size": 1, "color": "red"}}
    assert catalog.version(_widget(kinds, "v1")).clean(obj)[1] == []
    assert catalog.version(_widget(kinds, "v2")).clean(obj)[1] == ["spec.color"]
    assert catalog.version(_widget(kinds, "v2")).deprecation_warning == "shop.example.com/v2 Widget is deprecated"
    assert catalog.version(_widget(kinds, "v1")).deprecation_warning == ""


def test_objects_are_cleaned_and_judged_by_their_schema(kinds: scheme.Scheme, served: Definition) -> None:
    catalog = CustomKindCatalog(kinds)
    catalog.put(served)
    widget = _widget(kinds)
    obj = {"apiVersion": widget.api_version, "kind": "Widget", "metadata": {"name": "n"}, "spec": {"size": 0, "x": 1}}
    version: CustomSchema = catalog.version(widget)
    cleaned, unknown = version.clean(obj)
    assert unknown == ["spec.x"]
    assert cleaned["spec"] == {"size": 0, "replicas": 1, "color": "green"}
    assert obj["spec"] == {"size": 0, "x": 1}
    assert widget.validator is not None
    assert [str(error) for error in widget.validator(cleaned)] == [
        "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    ]
    assert version.selectable_fields["spec.color"](cleaned) == "green"
    assert version.printer_columns[0]["name"] == "Size"
    assert version.openapi is served["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_a_change_of_the_status_leaves_the_scheme_alone(kinds: scheme.Scheme, served: Definition) -> None:
    catalog = CustomKindCatalog(kinds)
    catalog.put(served)
    generation = kinds.generation
    catalog.put(copy.deepcopy(served))
    assert kinds.generation == generation
    changed = copy.deepcopy(served)
    changed["spec"]["names"]["shortNames"] = ["wi"]
    catalog.put(changed)
    assert _widget(kinds).short_names == ("wi",)


def test_a_definition_that_is_gone_takes_its_kind_along(kinds: scheme.Scheme, served: Definition) -> None:
    catalog = CustomKindCatalog(kinds)
    catalog.put(served)
    widget = _widget(kinds)
    catalog.forget("widgets.shop.example.com")
    assert kinds.versions(GroupResource("shop.example.com", "widgets")) == ()
    assert catalog.definitions == ()
    # a request that is still under way finds a schema that demands nothing
    assert catalog.version(widget).openapi is None
    catalog.forget("widgets.shop.example.com")


def test_a_kind_without_a_definition_may_hold_anything(kinds: scheme.Scheme) -> None:
    internal = ResourceType(group="g.example.com", version="v1", kind="K", plural="ks", namespaced=False)
    version = CustomKindCatalog(kinds).version(internal)
    assert version.clean({"any": {"thing": 1}}) == ({"any": {"thing": 1}}, [])


def test_a_built_in_kind_cannot_be_pushed_aside(kinds: scheme.Scheme, served: Definition) -> None:
    served["spec"]["group"] = "batch"
    served["spec"]["names"] = {"plural": "jobs", "kind": "Job", "singular": "job", "listKind": "JobList"}
    CustomKindCatalog(kinds).put(served)
    job = kinds.by_resource("batch", "v1", "jobs")
    assert job is not None
    assert not job.custom


def test_the_scale_is_read_and_written_where_the_definition_says(served: Definition) -> None:
    (version,) = registration.versions(served)
    assert version.scale is not None
    obj = {
        "metadata": {"name": "n", "namespace": "s", "uid": "u", "resourceVersion": "5", "labels": {"a": "b"}},
        "spec": {"size": 1, "replicas": 3},
        "status": {"replicas": 2, "selector": "a=b"},
    }
    assert version.scale.read(obj) == {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "n", "namespace": "s", "uid": "u", "resourceVersion": "5"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2, "selector": "a=b"},
    }
    assert version.scale.write(obj, 7)["spec"] == {"size": 1, "replicas": 7}
    assert obj["spec"] == {"size": 1, "replicas": 3}
    assert version.scale.read({"metadata": {"name": "n"}})["spec"] == {"replicas": 0}
    assert version.scale.write({"metadata": {}}, 2)["spec"] == {"replicas": 2}


def test_embedded_objects_must_say_what_they_are(served: Definition) -> None:
    properties = served["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["template"] = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    (version,) = registration.versions(served)
    assert version.resource.validator is not None
    obj = {"metadata": {}, "spec": {"size": 1, "template": {"kind": "Pod"}}}
    assert [str(error) for error in version.resource.validator(obj)] == [
        "spec.template.apiVersion: Required value: must not be empty"
    ]
