"""Names and labels: what is allowed, and upstream's words for what is not."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import names


@pytest.mark.parametrize("name", ["a", "web-0", "a.b-c.d", "0", "a" * 253])
def test_good_subdomains_pass(name: str) -> None:
    assert names.check_dns1123_subdomain(name) == []


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a..b", "a_b", "ä", "a/b", "a\n"])
def test_bad_subdomains_are_refused_in_upstreams_words(name: str) -> None:
    assert names.check_dns1123_subdomain(name) == [
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
        "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    ]


def test_long_names_are_said_to_be_long() -> None:
    assert names.check_dns1123_subdomain("a" * 254) == ["must be no more than 253 characters"]
    assert names.check_dns1123_label("a" * 64) == ["must be no more than 63 characters"]


def test_a_label_with_dots_is_named_in_the_message() -> None:
    assert names.check_dns1123_label("a.b") == ["must not contain dots"]
    assert "(e.g. 'my-name',  or '123-abc', regex" in names.check_dns1123_label("A")[0]


@pytest.mark.parametrize(
    ("group", "plural", "name", "good"),
    [
        ("", "pods", "a.b", True),
        ("", "namespaces", "a.b", False),
        ("", "services", "0a", True),
        ("", "services", "a0", True),
        ("rbac.authorization.k8s.io", "clusterroles", "system:node", True),
        ("rbac.authorization.k8s.io", "roles", "a/b", False),
        ("rbac.authorization.k8s.io", "roles", "..", False),
        ("apiregistration.k8s.io", "apiservices", "v1.", True),
        ("certificates.k8s.io", "clustertrustbundles", "example.com:signer:roots", True),
        ("example.com", "paints", "Red", False),
    ],
)
def test_each_kind_has_its_rule_for_names(group: str, plural: str, name: str, good: bool) -> None:
    assert (names.check_object_name(group, plural, name) == []) is good


@pytest.mark.parametrize("key", ["a", "A.b_c-d", "example.com/a", "x" * 63, "kubernetes.io/hostname"])
def test_good_label_keys_pass(key: str) -> None:
    assert names.check_label_key(key) == []


@pytest.mark.parametrize(
    ("key", "start"),
    [
        ("", "name part must be non-empty"),
        ("/a", "prefix part must be non-empty"),
        ("a/", "name part must be non-empty"),
        ("A_/b", "prefix part a lowercase RFC 1123 subdomain must consist"),
        ("a/b/c", "a valid label key must consist of alphanumeric characters"),
        ("x" * 64, "name part must be no more than 63 bytes"),
        ("-a", "name part must consist of alphanumeric characters"),
    ],
)
def test_bad_label_keys_are_refused_by_part(key: str, start: str) -> None:
    assert names.check_label_key(key)[0].startswith(start)


def test_label_values_may_be_empty_but_not_odd() -> None:
    assert names.check_label_value("") == []
    assert names.check_label_value("a_B.c-1") == []
    assert names.check_label_value("a b")[0].startswith("a valid label must be an empty string or consist of")


def test_annotation_keys_ignore_case_and_sizes_count_bytes() -> None:
    assert names.check_annotation_key("Example.COM/Key") == []
    assert names.annotations_bytes({"a": "ä"}) == 3


def test_config_keys_must_not_climb() -> None:
    assert names.check_config_key("..data") == ["must not start with '..'"]
    assert names.check_config_key(".") == ["must not be '.'"]
    assert names.check_config_key("a.B_c-1") == []


@given(st.integers(), st.text("abc-", min_size=1, max_size=80).filter(lambda text: not text.startswith("-")))
def test_generated_names_fit_and_are_valid(seed: int, prefix: str) -> None:
    name = names.generate(prefix, random.Random(seed))
    assert name[: -names.SUFFIX_LENGTH] == prefix[:58]
    assert set(name[-5:]) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert names.check_object_name("", "pods", name) == []


def test_a_generate_name_may_end_in_a_dash() -> None:
    assert names.check_generate_name("", "pods", "web-") == []
    assert names.check_generate_name("", "pods", "Web-") != []
    assert names.check_generate_name("rbac.authorization.k8s.io", "roles", "..") == []
    assert names.check_generate_name("rbac.authorization.k8s.io", "roles", "a/") == ["may not contain '/'"]
