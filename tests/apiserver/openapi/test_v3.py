from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from rota.api import scheme
from rota.api.identifiers import GroupResource, GroupVersion, GroupVersionKind
from rota.api.kinds import ResourceType, Subresource
from rota.apiserver.http import cached_documents
from rota.apiserver.openapi import components, v3

_FLAVOR_SCHEMA = {
    "type": "object",
    "description": "What it tastes of.",
    "properties": {
        "spec": {"type": "object", "properties": {"sweetness": {"type": "integer", "maximum": 9}}},
        "metadata": {"type": "object"},
    },
}
_FLAVOR_KIND = GroupVersionKind("shop.example.com", "v1", "Flavor")
_FLAVOR = ResourceType(
    group="shop.example.com",
    version="v1",
    kind="Flavor",
    plural="flavors",
    namespaced=True,
    subresources={"status": Subresource(name="status", kind=_FLAVOR_KIND, verbs=("get", "patch", "update"))},
)


def _schema_of(resource: ResourceType) -> Mapping[str, Any] | None:
    return _FLAVOR_SCHEMA if resource.kind == "Flavor" else None


def _openapi(kinds: scheme.Scheme) -> v3.OpenApiV3:
    return v3.OpenApiV3(kinds, schema_of=_schema_of, version="v1.33.0")


@pytest.fixture(scope="module")
def core() -> dict[str, Any]:
    return _openapi(scheme.builtin()).describe(GroupVersion("", "v1"))


def _read(document: cached_documents.Document | None) -> Any:
    assert document is not None
    return msgspec.json.decode(document.body)


def test_explain_finds_a_kind_by_the_extensions_of_operations_and_components(core: dict[str, Any]) -> None:
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    read = core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["get"]
    assert (read["x-kubernetes-action"], read["x-kubernetes-group-version-kind"]) == ("get", kind)
    assert core["components"]["schemas"]["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"] == [kind]


def test_the_paths_are_those_that_are_served(core: dict[str, Any]) -> None:
    paths = core["paths"]
    assert set(paths["/api/v1/namespaces/{namespace}/pods"]) == {"get", "post", "delete", "parameters"}
    assert set(paths["/api/v1/namespaces/{namespace}/pods/{name}"]) == {"get", "put", "patch", "delete", "parameters"}
    assert set(paths["/api/v1/pods"]) == {"get"}
    assert set(paths["/api/v1/nodes/{name}/status"]) == {"get", "put", "patch", "parameters"}
    assert set(paths["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]) == {"post", "parameters"}
    assert set(paths["/api/v1/namespaces"]) == {"get", "post"}
    assert set(paths["/api/v1/namespaces/{namespace}/bindings"]) == {"post", "parameters"}
    assert "/api/v1/namespaces/{namespace}/bindings/{name}" not in paths
    assert "/api/v1/namespaces/{namespace}/pods/{name}/exec" not in paths


def test_operations_are_named_as_generated_clients_expect(core: dict[str, Any]) -> None:
    names = {
        operation["operationId"]
        for item in core["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    }
    assert {
        "listCoreV1NamespacedPod",
        "listCoreV1PodForAllNamespaces",
        "readCoreV1Node",
        "replaceCoreV1NamespacedPodStatus",
        "deleteCoreV1CollectionNamespacedPod",
        "createCoreV1NamespacedPodEviction",
    } <= names


def test_writes_declare_the_parameters_that_kubectl_looks_for() -> None:
    kinds = scheme.builtin()
    kinds.add(_FLAVOR)
    for group, version in (("", "v1"), ("apps", "v1"), ("shop.example.com", "v1")):
        for item in _openapi(kinds).describe(GroupVersion(group, version))["paths"].values():
            for method in {"post", "put", "patch"} & item.keys():
                names = {parameter["name"] for parameter in item[method]["parameters"]}
                assert {"fieldValidation", "dryRun", "fieldManager"} <= names


def test_lists_can_be_selected_paged_and_watched(core: dict[str, Any]) -> None:
    listing = core["paths"]["/api/v1/namespaces/{namespace}/pods"]["get"]
    names = {parameter["name"] for parameter in listing["parameters"]}
    assert {"labelSelector", "fieldSelector", "limit", "continue", "watch", "resourceVersion"} <= names
    shown = listing["responses"]["200"]["content"]["application/json"]["schema"]
    assert shown == components.reference("io.k8s.api.core.v1.PodList")


def test_only_built_in_kinds_can_be_patched_strategically() -> None:
    kinds = scheme.builtin()
    kinds.add(_FLAVOR)

    def patch_types(group: str, version: str, path: str) -> set[str]:
        described = _openapi(kinds).describe(GroupVersion(group, version))
        return set(described["paths"][path]["patch"]["requestBody"]["content"])

    strategic = "application/strategic-merge-patch+json"
    assert strategic in patch_types("", "v1", "/api/v1/nodes/{name}")
    flavor = "/apis/shop.example.com/v1/namespaces/{namespace}/flavors/{name}"
    assert patch_types("shop.example.com", "v1", flavor) == {
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
    }


@pytest.mark.slow
def test_every_document_is_complete_and_no_operation_is_named_twice() -> None:
    kinds = scheme.builtin()
    kinds.add(_FLAVOR)
    openapi = _openapi(kinds)
    names: list[str] = []
    for group, versions in kinds.groups().items():
        for version in versions:
            described = openapi.describe(GroupVersion(group, version))
            assert set(components.references(described)) <= described["components"]["schemas"].keys()
            names += [
                operation["operationId"]
                for item in described["paths"].values()
                for method, operation in item.items()
                if method != "parameters"
            ]
    assert len(names) == len(set(names))
    assert len(names) > 800


def test_objects_can_be_checked_with_the_components(core: dict[str, Any]) -> None:
    root = {"$ref": "#/components/schemas/io.k8s.api.core.v1.Pod", "components": core["components"]}
    validator = jsonschema_rs.Draft7Validator(root)
    container = {"name": "c", "resources": {"limits": {"cpu": "500m", "memory": 1024}}}
    good = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    assert validator.is_valid(good)
    assert not validator.is_valid(good | {"spec": {"containers": [{"image": "i"}]}})
    assert not validator.is_valid(good | {"spec": {"containers": [container], "priority": "high"}})


def test_custom_kinds_show_their_schema_with_what_all_objects_have() -> None:
    kinds = scheme.builtin()
    kinds.add(_FLAVOR)
    described = _openapi(kinds).describe(GroupVersion("shop.example.com", "v1"))
    flavor = described["components"]["schemas"]["com.example.shop.v1.Flavor"]
    assert flavor["description"] == "What it tastes of."
    assert flavor["properties"]["spec"] == _FLAVOR_SCHEMA["properties"]["spec"]  # type: ignore[index]
    assert flavor["properties"]["metadata"]["allOf"] == [components.reference(components.OBJECT_META)]
    assert flavor["x-kubernetes-group-version-kind"] == [
        {"group": "shop.example.com", "version": "v1", "kind": "Flavor"}
    ]
    assert "com.example.shop.v1.FlavorList" in described["components"]["schemas"]
    assert "/apis/shop.example.com/v1/namespaces/{namespace}/flavors/{name}/status" in described["paths"]


def test_a_custom_kind_without_a_schema_may_hold_anything() -> None:
    kinds = scheme.Scheme([ResourceType(group="g.example.com", version="v1", kind="K", plural="ks", namespaced=False)])
    described = _openapi(kinds).describe(GroupVersion("g.example.com", "v1"))
    assert described["components"]["schemas"]["com.example.g.v1.K"]["x-kubernetes-preserve-unknown-fields"] is True


@pytest.mark.slow
def test_the_index_leads_to_every_document_and_names_its_hash() -> None:
    kinds = scheme.builtin()
    openapi = _openapi(kinds)
    paths = _read(openapi.document("/openapi/v3"))["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/autoscaling/v2"} <= paths.keys()
    for entry in paths.values():
        path, _, digest = entry["serverRelativeURL"].partition("?hash=")
        found = openapi.document(path)
        assert found is not None
        assert found.digest == digest


def test_documents_follow_the_scheme_and_others_stay_as_they_are() -> None:
    kinds = scheme.Scheme(one for one in scheme.builtin() if one.group == "batch")
    openapi = _openapi(kinds)
    index, batch = openapi.index(), openapi.document("/openapi/v3/apis/batch/v1")
    kinds.add(_FLAVOR)
    assert openapi.document("/openapi/v3/apis/batch/v1") is batch
    assert openapi.index().etag != index.etag
    flavors = openapi.document("/openapi/v3/apis/shop.example.com/v1")
    kinds.replace(_FLAVOR.group_resource, [_copy(_FLAVOR)])
    fresh = openapi.document("/openapi/v3/apis/shop.example.com/v1")
    assert fresh is not flavors
    assert fresh == flavors
    kinds.remove(GroupResource("shop.example.com", "flavors"))
    assert openapi.document("/openapi/v3/apis/shop.example.com/v1") is None
    assert openapi.index().etag == index.etag


def _copy(resource: ResourceType) -> ResourceType:
    """The same kind from a definition that was written again."""
    return ResourceType(
        group=resource.group,
        version=resource.version,
        kind=resource.kind,
        plural=resource.plural,
        namespaced=resource.namespaced,
        subresources=resource.subresources,
    )


@pytest.mark.parametrize(
    "path", ["/openapi/v3/api/v9", "/openapi/v3/apis/none/v1", "/openapi/v3/x", "/openapi/v3/apis//v1"]
)
def test_nothing_is_described_that_is_not_served(path: str) -> None:
    assert _openapi(scheme.builtin()).document(path) is None
