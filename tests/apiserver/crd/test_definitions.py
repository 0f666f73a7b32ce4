import copy
from collections.abc import Callable
from typing import Any

import pytest

from rota.apiserver.crd import definitions

Definition = dict[str, Any]


def _complete(definition: Definition) -> Definition:
    """As it is validated: with defaults and with its storage version recorded."""
    complete = copy.deepcopy(definition)
    definitions.set_defaults(complete)
    complete.setdefault("status", {"storedVersions": [definitions.storage_version(complete) or "v1"]})
    return complete


def _errors(definition: Definition) -> list[str]:
    return [str(error) for error in definitions.validate(_complete(definition))]


def _schema(definition: Definition) -> Definition:
    found: Definition = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def test_a_usual_definition_is_accepted_without_a_warning(definition: Definition) -> None:
    assert _errors(definition) == []
    assert definitions.warnings(definition) == []


def test_names_follow_from_the_kind(definition: Definition) -> None:
    definitions.set_defaults(definition)
    assert definition["spec"]["names"]["singular"] == "widget"
    assert definition["spec"]["names"]["listKind"] == "WidgetList"
    assert definition["spec"]["conversion"] == {"strategy": "None"}


def _set(*steps: Any, value: Any) -> Callable[[Definition], None]:
    def change(definition: Definition) -> None:
        at: Any = definition
        for step in steps[:-1]:
            at = at[step]
        at[steps[-1]] = value

    return change


_VERSION = ("spec", "versions", 0)
_SPEC_SCHEMA = (*_VERSION, "schema", "openAPIV3Schema", "properties", "spec")
_SCHEMA_PATH = "spec.validation.openAPIV3Schema"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            _set("metadata", "name", value="other.shop.example.com"),
            'metadata.name: Invalid value: "other.shop.example.com": must be spec.names.plural+"."+spec.group',
        ),
        (_set("spec", "scope", value=""), "spec.scope: Required value"),
        (
            _set("spec", "scope", value="Galaxy"),
            'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
        ),
        (
            _set("spec", "preserveUnknownFields", value=True),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
            "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ),
        (
            _set("spec", "names", "listKind", value="Widget"),
            'spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same',
        ),
        (
            _set(*_VERSION, "storage", value=False),
            'spec.versions: Invalid value: ["v1"]: must have exactly one version marked as storage version',
        ),
        (
            _set("spec", "conversion", value={"strategy": "Other"}),
            'spec.conversion.strategy: Unsupported value: "Other": supported values: "None", "Webhook"',
        ),
        (
            _set("spec", "conversion", value={"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}),
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
        ),
        (
            _set(*_SPEC_SCHEMA, "properties", "size", value={"minimum": 1}),
            f"{_SCHEMA_PATH}.properties[spec].properties[size].type: Required value: "
            "must not be empty for specified object fields",
        ),
        (
            _set(*_SPEC_SCHEMA, "properties", "size", value={"type": "int"}),
            f'{_SCHEMA_PATH}.properties[spec].properties[size].type: Unsupported value: "int": supported values: '
            '"array", "boolean", "integer", "number", "object", "string"',
        ),
        (
            _set(*_SPEC_SCHEMA, "properties", "size", "default", value="big"),
            f"{_SCHEMA_PATH}.properties[spec].properties[size].default: Invalid value: "
            '"string":  in body must be of type integer: "string"',
        ),
        (
            _set(*_SPEC_SCHEMA, "default", value={"size": 1, "other": 2}),
            f"{_SCHEMA_PATH}.properties[spec].default: Invalid value: "
            '{"other":2,"size":1}: must not have unknown fields',
        ),
        (
            _set(*_SPEC_SCHEMA, "$ref", value="#/x"),
            f"{_SCHEMA_PATH}.properties[spec].$ref: Forbidden: $ref is not supported",
        ),
        (
            _set(*_VERSION, "schema", "openAPIV3Schema", "additionalProperties", value=True),
            f"{_SCHEMA_PATH}.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            _set(*_VERSION, "subresources", "scale", "specReplicasPath", value=".status.replicas"),
            'spec.subresources.scale.specReplicasPath: Invalid value: ".status.replicas": '
            "should be a json path under .spec",
        ),
        (
            _set(*_VERSION, "additionalPrinterColumns", 0, "type", value="int"),
            'spec.additionalPrinterColumns[0].type: Invalid value: "int": '
            "must be one of boolean,date,integer,number,string",
        ),
        (
            _set(*_VERSION, "selectableFields", 0, "jsonPath", value=".spec.other"),
            'spec.selectableFields[0].jsonPath: Invalid value: ".spec.other": '
            "is an invalid path: does not refer to a valid field",
        ),
        (
            _set(*_VERSION, "deprecationWarning", value="old"),
            'spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions',
        ),
    ],
)
def test_a_broken_rule_is_named_by_its_field(
    definition: Definition, change: Callable[[Definition], None], message: str
) -> None:
    change(definition)
    assert message in _errors(definition)


def test_a_version_needs_a_schema(definition: Definition) -> None:
    del definition["spec"]["versions"][0]["schema"]
    del definition["spec"]["versions"][0]["selectableFields"]
    assert _errors(definition) == ["spec.versions[0].schema.openAPIV3Schema: Required value"]


def test_versions_that_differ_are_named_one_by_one(definition: Definition) -> None:
    other = copy.deepcopy(definition["spec"]["versions"][0]) | {"name": "v2", "storage": False}
    other["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] = {"minimum": 1}
    definition["spec"]["versions"].append(other)
    path = "spec.versions[1].schema.openAPIV3Schema.properties[spec].properties[size].type"
    assert _errors(definition) == [f"{path}: Required value: must not be empty for specified object fields"]


def test_version_names_are_unique(definition: Definition) -> None:
    definition["spec"]["versions"].append(definition["spec"]["versions"][0] | {"storage": False})
    assert _errors(definition) == ['spec.versions: Invalid value: ["v1","v1"]: must contain unique version names']


def test_lists_that_are_maps_need_keys_that_are_always_there(definition: Definition) -> None:
    _schema(definition)["properties"]["spec"]["properties"]["ports"] = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port"],
        "items": {"type": "object", "properties": {"port": {"type": "integer"}}},
    }
    path = f"{_SCHEMA_PATH}.properties[spec].properties[ports].items.properties[port].default"
    why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
    assert _errors(definition) == [f"{path}: Required value: {why}"]


def test_groups_of_the_community_need_an_approval(definition: Definition) -> None:
    definition["spec"]["group"] = "shop.k8s.io"
    definition["metadata"]["name"] = "widgets.shop.k8s.io"
    assert len(_errors(definition)) == 1
    definition["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    assert _errors(definition) == []
    definition["metadata"]["annotations"] = {"api-approved.kubernetes.io": "yes"}
    assert len(_errors(definition)) == 1


def test_group_and_plural_never_change_and_kind_and_scope_not_once_they_are_served(definition: Definition) -> None:
    old = _complete(definition)
    new = copy.deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    assert definitions.validate_update(new, old) == []
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    new["spec"]["group"] = "other.example.com"
    assert [str(error) for error in definitions.validate_update(new, old)] == [
        'spec.scope: Invalid value: "Cluster": field is immutable',
        'spec.group: Invalid value: "other.example.com": field is immutable',
    ]


def test_a_version_stays_as_long_as_objects_may_be_kept_in_it(definition: Definition) -> None:
    old = _complete(definition)
    new = copy.deepcopy(old)
    new["spec"]["versions"][0]["name"] = "v2"
    new["status"]["storedVersions"] = ["v1", "v2"]
    (error,) = definitions.validate_update(new, old)
    assert str(error).startswith('status.storedVersions[0]: Invalid value: "v1": missing from spec.versions;')


def test_a_schema_without_a_bottom_is_refused(definition: Definition) -> None:
    schema: Definition = {"type": "string"}
    for _ in range(110):
        schema = {"type": "object", "properties": {"x": schema}}
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    definition["spec"]["versions"][0].pop("selectableFields")
    assert _errors(definition) == [
        'spec.validation.openAPIV3Schema: Invalid value: "": must not be nested more than 100 levels deep'
    ]
    assert definitions.warnings(definition) == []


def test_unknown_formats_are_accepted_with_a_warning(definition: Definition) -> None:
    spec = _schema(definition)["properties"]["spec"]
    spec["x-kubernetes-validations"] = [{"rule": "self.size > 1"}]
    spec["properties"]["phone"] = {"type": "string", "format": "phone"}
    assert _errors(definition) == []
    assert definitions.warnings(definition) == ['unrecognized format "phone"']
