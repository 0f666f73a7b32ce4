"""Field selectors: `spec.nodeName=n1,status.phase!=Failed`, for the fields that each kind offers.

`compile_selector` parses a query string for one kind and refuses fields that this kind cannot be selected by, in
upstream's words. `extractor` gives the function that reads a kind's selectable fields from an object. Parsing
follows `k8s.io/apimachinery/pkg/fields` (1.37); which fields there are is a fact of each kind, tabled below.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api import gotext
from rota.api.identifiers import GroupKind

Object: TypeAlias = Mapping[str, Any]
Reader: TypeAlias = Callable[[Object], str]

_SPECIAL: Final = frozenset("\\,=")


class FieldSelectorError(ValueError):
    """The field selector cannot be understood, or its kind has no such field; the message says which."""


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison of a field with a value."""

    field: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        return f"{self.field}{'=' if self.equal else '!='}{escape(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms together; none selects everything."""

    terms: tuple[Term, ...] = ()

    def matches(self, values: Mapping[str, str]) -> bool:
        """Whether an object with these field values is selected; an absent field is the empty string."""
        return all((values.get(term.field, "") == term.value) is term.equal for term in self.terms)

    def required_value(self, field: str) -> str | None:
        """The one value that this field must have, if the selector demands one."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)

    @property
    def empty(self) -> bool:
        """Whether everything is selected."""
        return not self.terms

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


EVERYTHING: Final = FieldSelector()


def parse(text: str) -> FieldSelector:
    """A selector from a query string, with any fields."""
    terms = [_term(text, part) for part in sorted(_split_terms(text)) if part]
    return FieldSelector(tuple(terms)) if terms else EVERYTHING


def escape(value: str) -> str:
    """A value as it is written in a selector."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def compile_selector(text: str, kind: GroupKind, extra_fields: Mapping[str, Reader] | None = None) -> FieldSelector:
    """A selector for one kind; `extra_fields` are those that a custom kind declares selectable."""
    selector = parse(text)
    table = _TABLES.get(kind, _DEFAULT)
    terms = []
    for term in selector.terms:
        field = table.aliases.get(term.field, term.field)
        if field not in table.readers and field not in (extra_fields or {}):
            raise FieldSelectorError(table.refusal(term.field, extra_fields or {}))
        terms.append(Term(field, term.value, term.equal))
    return FieldSelector(tuple(terms)) if terms else EVERYTHING


def extractor(kind: GroupKind, extra_fields: Mapping[str, Reader] | None = None) -> Callable[[Object], dict[str, str]]:
    """The function that reads all selectable fields of an object of this kind."""
    readers = {**_TABLES.get(kind, _DEFAULT).readers, **(extra_fields or {})}

    def extract(obj: Object) -> dict[str, str]:
        return {field: read(obj) for field, read in readers.items()}

    return extract


def matcher(
    selector: FieldSelector, kind: GroupKind, extra_fields: Mapping[str, Reader] | None = None
) -> Callable[[Object], bool]:
    """The function that tells whether an object of this kind is selected; it reads only the fields it needs."""
    readers = {**_TABLES.get(kind, _DEFAULT).readers, **(extra_fields or {})}
    tests = tuple((readers[term.field], term.value, term.equal) for term in selector.terms)

    def matches(obj: Object) -> bool:
        return all((read(obj) == value) is equal for read, value, equal in tests)

    return matches


def at(*path: str) -> Reader:
    """A reader of the scalar at a path; absent is the empty string, and booleans are written as Go writes them."""

    def read(obj: Object) -> str:
        value: Any = obj
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is None:
            return ""
        return value if isinstance(value, str) else gotext.plain(value)

    return read


def _flag(*path: str) -> Reader:
    read = at(*path)
    return lambda obj: read(obj) or "false"


def _count(*path: str) -> Reader:
    read = at(*path)
    return lambda obj: read(obj) or "0"


def _first_pod_ip(obj: Object) -> str:
    addresses = (obj.get("status") or {}).get("podIPs") or ()
    return str(addresses[0].get("ip", "")) if addresses else at("status", "podIP")(obj)


def _event_source(obj: Object) -> str:
    return at("source", "component")(obj) or at("reportingComponent")(obj)


@dataclass(frozen=True, slots=True)
class _Table:
    """The selectable fields of a kind, and the sentence that refuses all others."""

    readers: Mapping[str, Reader]
    aliases: Mapping[str, str]
    sentence: str

    def refusal(self, field: str, extra_fields: Mapping[str, Reader]) -> str:
        known = gotext.quote_all([*self.readers, *extra_fields])
        return self.sentence.format(field=field, quoted=gotext.quote(field), known=known)


_NAME: Final = {"metadata.name": at("metadata", "name")}
_META: Final = {**_NAME, "metadata.namespace": at("metadata", "namespace")}


def _table(readers: Mapping[str, Reader], aliases: Mapping[str, str] | None = None) -> _Table:
    return _Table(readers, aliases or {}, "field label not supported: {field}")


_DEFAULT: Final = _Table(_META, {}, "{quoted} is not a known field selector: only {known}")

_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

_TABLES: Final[Mapping[GroupKind, _Table]] = {
    GroupKind("", "Pod"): _table(
        {
            **_META,
            "spec.nodeName": at("spec", "nodeName"),
            "spec.restartPolicy": at("spec", "restartPolicy"),
            "spec.schedulerName": at("spec", "schedulerName"),
            "spec.serviceAccountName": at("spec", "serviceAccountName"),
            "spec.hostNetwork": _flag("spec", "hostNetwork"),
            "status.phase": at("status", "phase"),
            "status.podIP": _first_pod_ip,
            "status.podIPs": lambda _: "",  # accepted in queries, but upstream never fills it
            "status.nominatedNodeName": at("status", "nominatedNodeName"),
        },
        {"spec.host": "spec.nodeName"},
    ),
    GroupKind("", "Node"): _table({**_NAME, "spec.unschedulable": _flag("spec", "unschedulable")}),
    GroupKind("", "ReplicationController"): _table({**_META, "status.replicas": _count("status", "replicas")}),
    GroupKind("", "Event"): _table(
        {
            **{f"involvedObject.{name}": at("involvedObject", name) for name in _REFERENCE},
            "reason": at("reason"),
            "reportingComponent": at("reportingComponent"),
            "source": _event_source,
            "type": at("type"),
            **_META,
        }
    ),
    GroupKind("events.k8s.io", "Event"): _table(
        {
            **{f"regarding.{name}": at("regarding", name) for name in _REFERENCE},
            "reason": at("reason"),
            "reportingController": at("reportingController"),
            "type": at("type"),
            **_META,
        }
    ),
    GroupKind("", "Namespace"): _table({**_NAME, "status.phase": at("status", "phase")}),
    GroupKind("", "Secret"): _table({**_META, "type": at("type")}),
    GroupKind("", "Service"): _table(
        {**_META, "spec.clusterIP": at("spec", "clusterIP"), "spec.type": at("spec", "type")}
    ),
    GroupKind("apps", "ReplicaSet"): _Table(
        {**_META, "status.replicas": _count("status", "replicas")},
        {},
        '{quoted} is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
    GroupKind("batch", "Job"): _Table(
        {**_META, "status.successful": _count("status", "succeeded")},
        {},
        "field label {quoted} not supported for Job",
    ),
    GroupKind("certificates.k8s.io", "CertificateSigningRequest"): _table(
        {**_NAME, "spec.signerName": at("spec", "signerName")}
    ),
    GroupKind("certificates.k8s.io", "ClusterTrustBundle"): _table(
        {**_NAME, "spec.signerName": at("spec", "signerName")}
    ),
    GroupKind("certificates.k8s.io", "PodCertificateRequest"): _table(
        {
            **_NAME,
            "spec.signerName": at("spec", "signerName"),
            "spec.podName": at("spec", "podName"),
            "spec.nodeName": at("spec", "nodeName"),
        }
    ),
    GroupKind("resource.k8s.io", "ResourceSlice"): _Table(
        {**_NAME, "spec.nodeName": at("spec", "nodeName"), "spec.driver": at("spec", "driver")},
        {},
        "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}",
    ),
}


def _split_terms(text: str) -> list[str]:
    """Parts between commas that are not escaped."""
    parts, start, escaped = [], 0, False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def _term(text: str, part: str) -> Term:
    for position in range(len(part)):
        for operator in ("!=", "==", "="):
            if part.startswith(operator, position):
                value = _unescape(part[position + len(operator) :])
                return Term(part[:position], value, operator != "!=")
    raise FieldSelectorError(f"invalid selector: '{text}'; can't understand '{part}'")


def _unescape(value: str) -> str:
    if _SPECIAL.isdisjoint(value):
        return value
    plain: list[str] = []
    characters = iter(value)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            if following not in _SPECIAL:
                raise FieldSelectorError(f"invalid field selector: invalid escape sequence: {character}{following}")
            plain.append(following)
        elif character in ",=":
            # upstream prints the code point, not the character
            raise FieldSelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            plain.append(character)
    return "".join(plain)
