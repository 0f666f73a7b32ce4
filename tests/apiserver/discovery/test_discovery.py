from typing import Any

import msgspec
import pytest

from rota.api import errors, scheme
from rota.api.identifiers import GroupResource, GroupVersion, GroupVersionKind
from rota.api.kinds import ResourceType, Subresource
from rota.apiserver import discovery
from rota.apiserver.http import cached_documents

_V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
#: As sent by kubectl 1.33 and 1.28.
_NEW_CLIENT = f"{_V2},{_V2BETA1},application/json"
_OLD_CLIENT = f"{_V2BETA1},application/json"

_FLAVOR = ResourceType(
    group="shop.example.com",
    version="v1beta1",
    kind="Flavor",
    plural="flavors",
    namespaced=False,
    short_names=("fl",),
    categories=("all",),
    subresources={
        "scale": Subresource(
            name="scale", kind=GroupVersionKind("autoscaling", "v1", "Scale"), verbs=("get", "patch", "update")
        )
    },
)


@pytest.fixture
def kinds() -> scheme.Scheme:
    return scheme.builtin()


def _read(found: cached_documents.Document | None) -> Any:
    assert found is not None
    return msgspec.json.decode(found.body)


def _resource(listed: dict[str, Any] | None, name: str) -> dict[str, Any]:
    assert listed is not None
    (found,) = [one for one in listed["resources"] if one["name"] == name]
    return dict(found)


def test_the_core_group_is_listed_by_its_versions(kinds: scheme.Scheme) -> None:
    told = discovery.api_versions(kinds, "127.0.0.1:6443")
    assert told == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    }


def test_groups_come_in_the_order_in_which_names_are_looked_up(kinds: scheme.Scheme) -> None:
    kinds.add(_FLAVOR)
    names = [group["name"] for group in discovery.group_list(kinds)["groups"]]
    assert names.index("apps") < names.index("events.k8s.io") < names.index("storage.k8s.io")
    assert names[-1] == "storagemigration.k8s.io"
    assert "shop.example.com" in names
    assert "" not in names


def test_a_group_prefers_its_most_stable_and_newest_version(kinds: scheme.Scheme) -> None:
    assert discovery.group_description(kinds, "autoscaling") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "autoscaling",
        "versions": [
            {"groupVersion": "autoscaling/v2", "version": "v2"},
            {"groupVersion": "autoscaling/v1", "version": "v1"},
        ],
        "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"},
    }


def test_resources_tell_names_scope_and_verbs(kinds: scheme.Scheme) -> None:
    pods = _resource(discovery.resource_list(kinds, GroupVersion("", "v1")), "pods")
    assert pods == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
    }


def test_eviction_is_listed_as_kubectl_drain_looks_for_it(kinds: scheme.Scheme) -> None:
    eviction = _resource(discovery.resource_list(kinds, GroupVersion("", "v1")), "pods/eviction")
    assert eviction == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }


def test_subresources_of_their_parents_version_do_not_repeat_it(kinds: scheme.Scheme) -> None:
    listed = discovery.resource_list(kinds, GroupVersion("apps", "v1"))
    assert "group" not in _resource(listed, "deployments/status")
    assert _resource(listed, "deployments/scale")["group"] == "autoscaling"


def test_only_the_list_of_the_core_group_has_no_api_version(kinds: scheme.Scheme) -> None:
    core = discovery.resource_list(kinds, GroupVersion("", "v1"))
    apps = discovery.resource_list(kinds, GroupVersion("apps", "v1"))
    assert core is not None
    assert apps is not None
    assert "apiVersion" not in core
    assert (apps["apiVersion"], apps["groupVersion"]) == ("v1", "apps/v1")


def test_reviews_can_only_be_created(kinds: scheme.Scheme) -> None:
    for group, name in (
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
    ):
        assert _resource(discovery.resource_list(kinds, GroupVersion(group, "v1")), name)["verbs"] == ["create"]


def test_what_is_not_shown_is_in_neither_form(kinds: scheme.Scheme) -> None:
    def without_exec(_resource: ResourceType, part: Subresource) -> bool:
        return part.name != "exec"

    told = discovery.Discovery(kinds, shown=without_exec)
    assert "pods/exec" not in str(_read(told.document("/api/v1")))
    assert "pods/log" in str(_read(told.document("/api/v1")))
    assert "PodExecOptions" not in str(_read(told.document("/api", _NEW_CLIENT)))


@pytest.mark.parametrize(("accept", "version"), [(_NEW_CLIENT, "v2"), (_OLD_CLIENT, "v2beta1")])
def test_clients_get_the_aggregated_version_that_they_read(kinds: scheme.Scheme, accept: str, version: str) -> None:
    found = discovery.Discovery(kinds).document("/apis", accept)
    assert found is not None
    expected = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    assert found.content_type == expected
    assert _read(found)["apiVersion"] == f"apidiscovery.k8s.io/{version}"


def test_both_aggregated_versions_hold_the_same(kinds: scheme.Scheme) -> None:
    told = discovery.Discovery(kinds)
    assert _read(told.document("/apis", _V2))["items"] == _read(told.document("/apis", _V2BETA1))["items"]


def test_the_aggregated_form_describes_a_resource_whole(kinds: scheme.Scheme) -> None:
    kinds.add(_FLAVOR)
    items = _read(discovery.Discovery(kinds).document("/apis", _V2))["items"]
    (group,) = [one for one in items if one["metadata"]["name"] == "shop.example.com"]
    assert group["versions"] == [
        {
            "version": "v1beta1",
            "freshness": "Current",
            "resources": [
                {
                    "resource": "flavors",
                    "responseKind": {"group": "shop.example.com", "version": "v1beta1", "kind": "Flavor"},
                    "scope": "Cluster",
                    "singularResource": "flavor",
                    "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
                    "shortNames": ["fl"],
                    "categories": ["all"],
                    "subresources": [
                        {
                            "subresource": "scale",
                            "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                            "verbs": ["get", "patch", "update"],
                        }
                    ],
                }
            ],
        }
    ]


def test_the_two_roots_share_the_groups_between_them(kinds: scheme.Scheme) -> None:
    told = discovery.Discovery(kinds)
    core, others = _read(told.document("/api", _V2))["items"], _read(told.document("/apis", _V2))["items"]
    assert [one["metadata"] for one in core] == [{}]
    assert {one["metadata"]["name"] for one in others} == {group for group in kinds.groups() if group}


@pytest.mark.parametrize("accept", ["", "application/json", "*/*", "application/json;q=0.5", "text/html,*/*;q=0.1"])
def test_clients_that_ask_for_nothing_special_get_the_plain_form(kinds: scheme.Scheme, accept: str) -> None:
    told = discovery.Discovery(kinds)
    assert _read(told.document("/api", accept))["kind"] == "APIVersions"
    assert _read(told.document("/apis/", accept))["kind"] == "APIGroupList"
    assert _read(told.document("/apis/apps", accept))["kind"] == "APIGroup"
    assert _read(told.document("/apis/apps/v1", accept))["kind"] == "APIResourceList"


def test_clients_that_do_not_read_json_are_refused(kinds: scheme.Scheme) -> None:
    for path in ("/api", "/apis/apps/v1"):
        with pytest.raises(errors.NotAcceptable):
            discovery.Discovery(kinds).document(path, "text/html")


@pytest.mark.parametrize("path", ["/apis/none", "/apis/apps/v9", "/api/v2", "/other", "/apis//v1", "/"])
def test_resources_that_are_not_served_are_not_listed(kinds: scheme.Scheme, path: str) -> None:
    assert discovery.Discovery(kinds).document(path) is None


def test_documents_are_kept_until_the_scheme_changes(kinds: scheme.Scheme) -> None:
    told = discovery.Discovery(kinds)
    before = told.document("/apis", _V2)
    assert told.document("/apis", _V2) is before
    kinds.add(_FLAVOR)
    with_flavor = told.document("/apis", _V2)
    assert with_flavor is not None
    assert before is not None
    assert with_flavor.etag != before.etag
    kinds.remove(GroupResource("shop.example.com", "flavors"))
    after = told.document("/apis", _V2)
    assert after is not None
    assert after.etag == before.etag


def test_a_client_that_has_the_document_gets_304() -> None:
    document = cached_documents.encode({"kind": "APIGroupList"})
    assert cached_documents.respond(document).code == 200
    for header in (document.etag, f"W/{document.etag}", f'"other", {document.etag}', "*"):
        answer = cached_documents.respond(document, header)
        assert (answer.code, answer.body) == (304, b"")
    assert cached_documents.respond(document, '"other"').code == 200


def test_the_answer_says_that_it_depends_on_the_accept_header() -> None:
    document = cached_documents.encode({"kind": "APIGroupList"})
    assert cached_documents.respond(document).headers == ((b"etag", document.etag.encode()), (b"vary", b"Accept"))


def test_the_same_content_in_another_form_has_another_tag() -> None:
    assert cached_documents.encode({}).etag != cached_documents.encode({}, "application/json;v=v2").etag
