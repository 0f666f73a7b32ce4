"""Static types of CEL, and when a value of one type may be used for another."""

from typing import Final

from msgspec import Struct


class Type(Struct, frozen=True):
    """A type. `kind` is the family; `name` distinguishes objects, opaque types and type parameters."""

    kind: str
    name: str
    params: "tuple[Type, ...]" = ()

    def __str__(self) -> str:
        if self.kind == "error":
            return "!error!"
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


BOOL: Final = Type("bool", "bool")
INT: Final = Type("int", "int")
UINT: Final = Type("uint", "uint")
DOUBLE: Final = Type("double", "double")
STRING: Final = Type("string", "string")
BYTES: Final = Type("bytes", "bytes")
NULL: Final = Type("null", "null")
DYN: Final = Type("dyn", "dyn")
ERROR: Final = Type("error", "error")
DURATION: Final = Type("duration", "duration")
TIMESTAMP: Final = Type("timestamp", "timestamp")
#: Types of Kubernetes' libraries.
URL: Final = Type("struct", "kubernetes.URL")
QUANTITY: Final = Type("struct", "kubernetes.Quantity")
SEMVER: Final = Type("struct", "kubernetes.Semver")
FORMAT: Final = Type("struct", "kubernetes.NamedFormat")
IP: Final = Type("opaque", "net.IP")
CIDR: Final = Type("opaque", "net.CIDR")
AUTHORIZER: Final = Type("struct", "kubernetes.authorization.Authorizer")
PATH_CHECK: Final = Type("struct", "kubernetes.authorization.PathCheck")
GROUP_CHECK: Final = Type("struct", "kubernetes.authorization.GroupCheck")
RESOURCE_CHECK: Final = Type("struct", "kubernetes.authorization.ResourceCheck")
DECISION: Final = Type("struct", "kubernetes.authorization.Decision")
JSON_PATCH: Final = Type("struct", "JSONPatch")


def list_of(element: Type) -> Type:
    """The type of lists."""
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """The type of maps."""
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    """The type of optional values."""
    return Type("opaque", "optional_type", (value,))


def object_of(name: str) -> Type:
    """The type of objects whose fields are declared."""
    return Type("struct", name)


def type_of(value: Type) -> Type:
    """The type of a type."""
    return Type("type", "type", (value,))


def parameter(name: str) -> Type:
    """A type parameter."""
    return Type("param", name)


def is_dyn(one: Type) -> bool:
    """Whether it is checked at run time only."""
    return one.kind == "dyn"


def unwrap_optional(one: Type) -> tuple[Type, bool]:
    """The type inside an optional, and whether it was one."""
    if one.name == "optional_type" and one.kind == "opaque":
        return one.params[0], True
    return one, False


#: What type parameters stand for.
Mapping = dict[Type, Type]
_NULLABLE: Final = frozenset({"opaque", "struct", "duration", "timestamp"})
_CONTAINERS: Final = frozenset({"opaque", "list", "map"})


def assignable(mapping: Mapping, one: Type, other: Type) -> Mapping | None:
    """The mapping under which the types agree; None if they do not."""
    return assignable_all(mapping, (one,), (other,))


def assignable_all(mapping: Mapping, ones: tuple[Type, ...], others: tuple[Type, ...]) -> Mapping | None:
    """As `assignable`, for lists of types."""
    result = dict(mapping)
    return result if _all(result, ones, others) else None


def _all(mapping: Mapping, ones: tuple[Type, ...], others: tuple[Type, ...]) -> bool:
    return len(ones) == len(others) and all(_agree(mapping, *pair) for pair in zip(ones, others, strict=True))


def _agree(mapping: Mapping, one: Type, other: Type) -> bool:
    if other.kind == "param":
        valid, bound = _bind(mapping, one, other)
        if valid:
            return True
        if bound:
            return False
    if one.kind == "param":
        return _bind(mapping, other, one)[0]
    if one.kind in ("dyn", "error") or other.kind in ("dyn", "error"):
        return True
    if one.kind == "null":
        return other.kind in _NULLABLE or other.kind == "null"
    if other.kind == "null":
        return one.kind in _NULLABLE
    if one.kind == "type":
        return other.kind == "type"
    if one.kind in _CONTAINERS:
        return one.kind == other.kind and one.name == other.name and _all(mapping, one.params, other.params)
    return one == other


def _bind(mapping: Mapping, one: Type, variable: Type) -> tuple[bool, bool]:
    """Whether a type may stand for a parameter, and whether something stood for it before."""
    if one == variable:
        return True, True
    bound = mapping.get(variable)
    if bound is not None:
        if one == bound:
            return True, True
        if _agree(mapping, one, bound):
            general = most_general(one, bound)
            if not _mentions(mapping, variable, general):
                mapping[variable] = general
            return True, True
        return False, True
    if not _mentions(mapping, variable, one):
        mapping[variable] = one
        return True, False
    return False, False


def _mentions(mapping: Mapping, variable: Type, within: Type) -> bool:
    if variable == within:
        return True
    if within.kind == "param":
        bound = mapping.get(within)
        return bound is not None and _mentions(mapping, variable, bound)
    return any(_mentions(mapping, variable, one) for one in within.params)


def most_general(one: Type, other: Type) -> Type:
    """The less specific of two types that agree."""
    return one if _less_specific(one, other) else other


def _less_specific(one: Type, other: Type) -> bool:
    if one.kind in ("dyn", "param"):
        return True
    if other.kind in ("dyn", "param") or one.kind != other.kind:
        return False
    if one.kind in _CONTAINERS:
        return (
            one.name == other.name
            and len(one.params) == len(other.params)
            and all(_less_specific(*pair) for pair in zip(one.params, other.params, strict=True))
        )
    return one.kind == "type" or one == other


def substitute(mapping: Mapping, one: Type, *, to_dyn: bool = False) -> Type:
    """The type with its parameters replaced; unbound ones become dyn if asked for."""
    bound = mapping.get(one)
    if bound is not None:
        return substitute(mapping, bound, to_dyn=to_dyn)
    if one.kind == "param":
        return DYN if to_dyn else one
    if not one.params:
        return one
    return Type(one.kind, one.name, tuple(substitute(mapping, each, to_dyn=to_dyn) for each in one.params))
