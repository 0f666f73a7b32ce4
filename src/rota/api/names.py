"""Rules for names, label keys and label values, with upstream's messages for invalid ones.

Every `check_*` function answers with a list of messages, empty if the value is fine; the texts are upstream's
(`k8s.io/apimachinery/pkg/api/validate/content`, 1.37). `generate` makes a name from a `generateName` prefix;
its randomness is an argument.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

MAX_LABEL_LENGTH: Final = 63
MAX_SUBDOMAIN_LENGTH: Final = 253
MAX_ANNOTATIONS_BYTES: Final = 256 * 1024

#: Upstream leaves out vowels and look-alikes, so that no word can arise by chance.
SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5
MAX_GENERATED_LENGTH: Final = 63

_DNS1123_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS1123_SUBDOMAIN: Final = _DNS1123_LABEL + "(\\." + _DNS1123_LABEL + ")*"
_DNS1035_LABEL: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = "(" + _LABEL_KEY + ")?"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"

_match_dns1123_label: Final = re.compile(_DNS1123_LABEL).fullmatch
_match_dns1123_subdomain: Final = re.compile(_DNS1123_SUBDOMAIN).fullmatch
_match_dns1035_label: Final = re.compile(_DNS1035_LABEL).fullmatch
_match_label_key: Final = re.compile(_LABEL_KEY).fullmatch
_match_label_value: Final = re.compile(_LABEL_VALUE).fullmatch
_match_config_key: Final = re.compile(_CONFIG_KEY).fullmatch

_ALPHANUMERIC_ENDS: Final = "and must start and end with an alphanumeric character"
_LABEL_KEY_RULE: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALPHANUMERIC_ENDS}"


class RandomChoice(Protocol):
    """The part of `random.Random` that name generation needs."""

    def choice(self, seq: str, /) -> str:
        """One element of the sequence."""
        ...


def check_dns1123_label(value: str) -> list[str]:
    """One part of a host name, lower case: namespaces and containers."""
    messages = _too_long(value, MAX_LABEL_LENGTH)
    if not _match_dns1123_label(value):
        if _match_dns1123_subdomain(value):
            messages.append("must not contain dots")
        else:
            rule = (
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
                + _ALPHANUMERIC_ENDS
            )
            messages.append(_breaks(rule, _DNS1123_LABEL, "my-name", "123-abc"))
    return messages


def check_dns1123_subdomain(value: str) -> list[str]:
    """A host name, lower case: most objects."""
    messages = _too_long(value, MAX_SUBDOMAIN_LENGTH)
    if not _match_dns1123_subdomain(value):
        rule = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            + _ALPHANUMERIC_ENDS
        )
        messages.append(_breaks(rule, _DNS1123_SUBDOMAIN, "example.com"))
    return messages


def check_wildcard_dns1123_subdomain(value: str) -> list[str]:
    """A host name whose first part stands for any."""
    if value.startswith("*.") and _match_dns1123_subdomain(value[2:]):
        return _too_long(value, MAX_SUBDOMAIN_LENGTH)
    rule = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
        "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
    )
    return [_breaks(rule, rf"\*\.{_DNS1123_SUBDOMAIN}", "*.example.com")]


def check_dns1035_label(value: str) -> list[str]:
    """One part of a host name that starts with a letter: services."""
    messages = _too_long(value, MAX_LABEL_LENGTH)
    if not _match_dns1035_label(value):
        rule = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
            "start with an alphabetic character, and end with an alphanumeric character"
        )
        messages.append(_breaks(rule, _DNS1035_LABEL, "my-name", "abc-123"))
    return messages


def check_path_segment(value: str) -> list[str]:
    """Anything that can stand between two slashes of a URL: RBAC objects."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return _check_path_segment_prefix(value)


def check_label_key(value: str) -> list[str]:
    """A qualified name: an optional DNS prefix, a slash, and a short name. Finalizers and conditions too."""
    messages: list[str] = []
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        rule = _breaks(_LABEL_KEY_RULE, _LABEL_KEY, "MyName", "my.name", "123-abc")
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {rule} {optional}"]
    if slash and not prefix:
        messages.append("prefix part must be non-empty")
    elif slash:
        messages.extend("prefix part " + message for message in check_dns1123_subdomain(prefix))
    if not name:
        messages.append("name part must be non-empty")
    messages.extend("name part " + message for message in _too_long(name, MAX_LABEL_LENGTH, "bytes"))
    if not _match_label_key(name):
        rule = _breaks(_LABEL_KEY_RULE, _LABEL_KEY, "MyName", "my.name", "123-abc")
        messages.append("name part " + rule)
    return messages


def check_label_value(value: str) -> list[str]:
    """The value of a label; it may be empty."""
    messages = _too_long(value, MAX_LABEL_LENGTH, "bytes")
    if not _match_label_value(value):
        rule = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            + _ALPHANUMERIC_ENDS
        )
        messages.append(_breaks(rule, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return messages


def check_config_key(value: str) -> list[str]:
    """A key of a ConfigMap or a Secret."""
    messages = _too_long(value, MAX_SUBDOMAIN_LENGTH)
    if not _match_config_key(value):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        messages.append(_breaks(rule, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in {".", ".."}:
        messages.append(f"must not be '{value}'")
    elif value.startswith(".."):
        messages.append("must not start with '..'")
    return messages


def check_annotation_key(value: str) -> list[str]:
    """Like a label key, whatever the case of the letters."""
    return check_label_key(value.lower())


def annotations_bytes(annotations: Mapping[str, str]) -> int:
    """What counts against `MAX_ANNOTATIONS_BYTES`: keys and values in UTF-8."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


#: Kinds whose names follow a rule of their own; all others are DNS-1123 subdomains.
_CHECKS: Final[Mapping[tuple[str, str], Callable[[str], list[str]]]] = {
    ("", "namespaces"): check_dns1123_label,
    ("", "services"): check_dns1123_label,
    ("rbac.authorization.k8s.io", "roles"): check_path_segment,
    ("rbac.authorization.k8s.io", "rolebindings"): check_path_segment,
    ("rbac.authorization.k8s.io", "clusterroles"): check_path_segment,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): check_path_segment,
    ("", "events"): check_path_segment,
    ("apiregistration.k8s.io", "apiservices"): check_path_segment,
    ("certificates.k8s.io", "certificatesigningrequests"): check_path_segment,
    ("certificates.k8s.io", "clustertrustbundles"): check_path_segment,
    ("networking.k8s.io", "ipaddresses"): check_path_segment,
}


def check_object_name(group: str, plural: str, name: str) -> list[str]:
    """The name of an object of a resource."""
    return _CHECKS.get((group, plural), check_dns1123_subdomain)(name)


def check_generate_name(group: str, plural: str, prefix: str) -> list[str]:
    """A `generateName`: like a name, but it may end in a dash, which the suffix will follow."""
    check = _CHECKS.get((group, plural), check_dns1123_subdomain)
    if check is check_path_segment:
        return _check_path_segment_prefix(prefix)
    masked = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
    return check(masked)


def generate(prefix: str, rng: RandomChoice) -> str:
    """A name from a `generateName` prefix, cut so that the suffix always fits."""
    suffix = "".join(rng.choice(SUFFIX_ALPHABET) for _ in range(SUFFIX_LENGTH))
    return prefix[: MAX_GENERATED_LENGTH - SUFFIX_LENGTH] + suffix


def _check_path_segment_prefix(value: str) -> list[str]:
    return [f"may not contain '{character}'" for character in "/%" if character in value]


def _too_long(value: str, limit: int, unit: str = "characters") -> list[str]:
    """Bytes are counted in either case; upstream calls them so for labels only."""
    return [f"must be no more than {limit} {unit}"] if len(value.encode()) > limit else []


def _breaks(rule: str, expression: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{expression}')"
