"""Store keys: readable, injective, and prefixes that end where a name ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api import keys, scheme
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType

SCHEME = scheme.builtin()


def _type(name: str) -> ResourceType:
    found = SCHEME.find(name)
    assert found is not None
    return found


def test_keys_read_as_group_plural_namespace_and_name() -> None:
    assert keys.for_object(_type("pods"), "default", "web-0") == "/core/pods/default/web-0"
    assert keys.for_object(_type("deployments"), "default", "web") == "/apps/deployments/default/web"
    assert keys.for_object(_type("nodes"), None, "n1") == "/core/nodes/n1"
    assert keys.for_object(_type("nodes"), "", "n1") == "/core/nodes/n1"


def test_prefixes_end_in_a_slash() -> None:
    assert keys.prefix(_type("pods")) == "/core/pods/"
    assert keys.prefix(_type("pods"), "default") == "/core/pods/default/"
    assert keys.prefix(_type("nodes")) == "/core/nodes/"


def test_all_versions_of_a_resource_share_their_keys() -> None:
    versions = SCHEME.versions(GroupResource("autoscaling", "horizontalpodautoscalers"))
    assert len({keys.prefix(one) for one in versions}) == 1 < len(versions)


@pytest.mark.parametrize(
    ("resource", "namespace", "name"),
    [
        ("pods", "default", "a/b"),
        ("pods", "default", ""),
        ("pods", None, "a"),
        ("pods", "a/b", "c"),
        ("nodes", "default", "n1"),
    ],
)
def test_a_key_that_would_lead_elsewhere_is_refused(resource: str, namespace: str | None, name: str) -> None:
    with pytest.raises(ValueError, match=r"key|namespaces"):
        keys.for_object(_type(resource), namespace, name)


def test_a_group_must_not_hide_behind_the_core_group() -> None:
    odd = ResourceType(group="core", version="v1", kind="Odd", plural="odds", namespaced=True)
    with pytest.raises(ValueError, match="core"):
        keys.prefix(odd)
    with pytest.raises(ValueError, match="no namespaces"):
        keys.prefix(_type("nodes"), "default")


@pytest.mark.parametrize("key", ["", "/", "/core/pods/", "core/pods/a/b", "/a/b/c/d/e", "/core//a"])
def test_what_is_no_key_is_not_taken_apart(key: str) -> None:
    with pytest.raises(ValueError, match="not the key of an object"):
        keys.split(key)


names = st.text(min_size=1, max_size=4).filter(lambda text: "/" not in text)
objects = st.tuples(
    st.sampled_from(list(SCHEME)), names, names
).map(lambda found: (found[0], found[1] if found[0].namespaced else None, found[2]))  # fmt: skip


@settings(max_examples=50)
@given(objects, objects)
def test_different_objects_have_different_keys(
    left: tuple[ResourceType, str | None, str], right: tuple[ResourceType, str | None, str]
) -> None:
    same = (left[0].group_resource, *left[1:]) == (right[0].group_resource, *right[1:])
    assert (keys.for_object(*left) == keys.for_object(*right)) is same


@given(objects)
def test_a_key_can_be_taken_apart(found: tuple[ResourceType, str | None, str]) -> None:
    resource, namespace, name = found
    assert keys.split(keys.for_object(*found)) == (resource.group, resource.plural, namespace or "", name)


@settings(max_examples=50)
@given(objects, objects)
def test_a_prefix_covers_exactly_its_resource_and_namespace(
    one: tuple[ResourceType, str | None, str], other: tuple[ResourceType, str | None, str]
) -> None:
    key = keys.for_object(*other)
    same_resource = one[0].group_resource == other[0].group_resource
    assert key.startswith(keys.prefix(one[0])) is same_resource
    if one[0].namespaced:
        assert key.startswith(keys.prefix(one[0], one[1])) is (same_resource and one[1] == other[1])
