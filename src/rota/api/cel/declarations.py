"""Functions and operators with their overloads, as the type checker sees them.

Each line is one overload: `name(types) -> type` for a global function, `type.name(types) -> type` for a member. A, B, K
and V are type parameters. The overload ids of operators are the stock server's, because costs depend on them.
"""

import re
from typing import Final

from msgspec import Struct

from rota.api.cel import types
from rota.api.cel.types import Type


class Overload(Struct, frozen=True):
    """One signature of a function."""

    id: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    #: The names of its type parameters.
    parameters: tuple[Type, ...] = ()


_ORDERED: Final = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
_MIXED: Final = (
    ("int", "double"),
    ("int", "uint"),
    ("uint", "double"),
    ("uint", "int"),
    ("double", "int"),
    ("double", "uint"),
)
_ID_NAMES: Final = {"int": "int64", "uint": "uint64"}
_NAMED: Final = {
    "bool": types.BOOL, "int": types.INT, "uint": types.UINT, "double": types.DOUBLE, "string": types.STRING,
    "bytes": types.BYTES, "null": types.NULL, "dyn": types.DYN, "duration": types.DURATION,
    "timestamp": types.TIMESTAMP, "url": types.URL, "quantity": types.QUANTITY, "semver": types.SEMVER,
    "format": types.FORMAT, "ip": types.IP, "cidr": types.CIDR, "authorizer": types.AUTHORIZER,
    "pathCheck": types.PATH_CHECK, "groupCheck": types.GROUP_CHECK, "resourceCheck": types.RESOURCE_CHECK,
    "decision": types.DECISION,
}  # fmt: skip

#: `id: signature`, or a signature alone where no cost depends on the id.
_STANDARD: Final = """
conditional: _?_:_(bool, A, A) -> A
logical_and: _&&_(bool, bool) -> bool
logical_or: _||_(bool, bool) -> bool
logical_not: !_(bool) -> bool
not_strictly_false: @not_strictly_false(bool) -> bool
equals: _==_(A, A) -> bool
not_equals: _!=_(A, A) -> bool
add_bytes: _+_(bytes, bytes) -> bytes
add_double: _+_(double, double) -> double
add_duration_duration: _+_(duration, duration) -> duration
add_duration_timestamp: _+_(duration, timestamp) -> timestamp
add_timestamp_duration: _+_(timestamp, duration) -> timestamp
add_int64: _+_(int, int) -> int
add_list: _+_(list(A), list(A)) -> list(A)
add_string: _+_(string, string) -> string
add_uint64: _+_(uint, uint) -> uint
_/_(double, double) -> double
_/_(int, int) -> int
_/_(uint, uint) -> uint
_%_(int, int) -> int
_%_(uint, uint) -> uint
_*_(double, double) -> double
_*_(int, int) -> int
_*_(uint, uint) -> uint
-_(double) -> double
-_(int) -> int
_-_(double, double) -> double
_-_(duration, duration) -> duration
_-_(int, int) -> int
_-_(timestamp, duration) -> timestamp
_-_(timestamp, timestamp) -> duration
_-_(uint, uint) -> uint
index_list: _[_](list(A), int) -> A
index_map: _[_](map(A, B), A) -> B
optional_list_index_int: _[_](optional(list(V)), int) -> optional(V)
optional_map_index_value: _[_](optional(map(K, V)), K) -> optional(V)
in_list: @in(A, list(A)) -> bool
in_map: @in(A, map(A, B)) -> bool
size(bytes) -> int
bytes.size() -> int
size(list(A)) -> int
list(A).size() -> int
size(map(A, B)) -> int
map(A, B).size() -> int
size(string) -> int
string.size() -> int
type(A) -> type(A)
bool(bool) -> bool
bool(string) -> bool
bytes(bytes) -> bytes
string_to_bytes: bytes(string) -> bytes
double(double) -> double
double(int) -> double
double(string) -> double
double(uint) -> double
duration(duration) -> duration
duration(int) -> duration
duration(string) -> duration
dyn(A) -> dyn
int(int) -> int
int(double) -> int
int(duration) -> int
int(string) -> int
int(timestamp) -> int
int(uint) -> int
string(string) -> string
string(bool) -> string
bytes_to_string: string(bytes) -> string
string(double) -> string
string(duration) -> string
string(int) -> string
string(timestamp) -> string
string(uint) -> string
timestamp(timestamp) -> timestamp
timestamp(int) -> timestamp
timestamp(string) -> timestamp
uint(uint) -> uint
uint(double) -> uint
uint(int) -> uint
uint(string) -> uint
contains_string: string.contains(string) -> bool
ends_with_string: string.endsWith(string) -> bool
starts_with_string: string.startsWith(string) -> bool
matches: matches(string, string) -> bool
matches_string: string.matches(string) -> bool
timestamp.getFullYear() -> int
timestamp.getFullYear(string) -> int
timestamp.getMonth() -> int
timestamp.getMonth(string) -> int
timestamp.getDayOfYear() -> int
timestamp.getDayOfYear(string) -> int
timestamp.getDayOfMonth() -> int
timestamp.getDayOfMonth(string) -> int
timestamp.getDate() -> int
timestamp.getDate(string) -> int
timestamp.getDayOfWeek() -> int
timestamp.getDayOfWeek(string) -> int
timestamp.getHours() -> int
timestamp.getHours(string) -> int
duration.getHours() -> int
timestamp.getMinutes() -> int
timestamp.getMinutes(string) -> int
duration.getMinutes() -> int
timestamp.getSeconds() -> int
timestamp.getSeconds(string) -> int
duration.getSeconds() -> int
timestamp.getMilliseconds() -> int
timestamp.getMilliseconds(string) -> int
duration.getMilliseconds() -> int
"""

#: Optional values, and the libraries of strings, lists, sets and two-variable comprehensions.
_EXTENSIONS: Final = """
optional.of(V) -> optional(V)
optional.ofNonZeroValue(V) -> optional(V)
optional.none() -> optional(V)
optional(V).value() -> V
optional(V).hasValue() -> bool
optional(V).or(optional(V)) -> optional(V)
optional(V).orValue(V) -> V
list_optindex_optional_int: _[?_](list(V), int) -> optional(V)
optional_list_optindex_optional_int: _[?_](optional(list(V)), int) -> optional(V)
map_optindex_optional_value: _[?_](map(K, V), K) -> optional(V)
optional_map_optindex_optional_value: _[?_](optional(map(K, V)), K) -> optional(V)
list(V).last() -> optional(V)
list(V).first() -> optional(V)
optional.unwrap(list(optional(V))) -> list(V)
list(optional(V)).unwrapOpt() -> list(V)
string.charAt(int) -> string
string.indexOf(string) -> int
string.indexOf(string, int) -> int
string.lastIndexOf(string) -> int
string.lastIndexOf(string, int) -> int
string.lowerAscii() -> string
string.replace(string, string) -> string
string.replace(string, string, int) -> string
string.split(string) -> list(string)
string.split(string, int) -> list(string)
string.substring(int) -> string
string.substring(int, int) -> string
string.trim() -> string
string.upperAscii() -> string
string_format: string.format(list(dyn)) -> string
strings_quote: strings.quote(string) -> string
list(string).join() -> string
list(string).join(string) -> string
sets.contains(list(A), list(A)) -> bool
sets.equivalent(list(A), list(A)) -> bool
sets.intersects(list(A), list(A)) -> bool
list(A).slice(int, int) -> list(A)
list(list(A)).flatten() -> list(A)
list(dyn).flatten(int) -> list(dyn)
lists.range(int) -> list(int)
list(A).reverse() -> list(A)
list(A).distinct() -> list(A)
cel.@mapInsert(map(K, V), K, V) -> map(K, V)
cel.@mapInsert(map(K, V), map(K, V)) -> map(K, V)
"""

#: Kubernetes' own libraries.
_KUBERNETES: Final = """
list(A).indexOf(A) -> int
list(A).lastIndexOf(A) -> int
string.find(string) -> string
string.findAll(string) -> list(string)
string.findAll(string, int) -> list(string)
url(string) -> url
url.getScheme() -> string
url.getHost() -> string
url.getHostname() -> string
url.getPort() -> string
url.getEscapedPath() -> string
url.getQuery() -> map(string, list(string))
isURL(string) -> bool
quantity(string) -> quantity
isQuantity(string) -> bool
sign(quantity) -> int
quantity.isGreaterThan(quantity) -> bool
quantity.isLessThan(quantity) -> bool
quantity.compareTo(quantity) -> int
quantity.asApproximateFloat() -> double
quantity.asInteger() -> int
quantity.isInteger() -> bool
quantity.add(quantity) -> quantity
quantity.add(int) -> quantity
quantity.sub(quantity) -> quantity
quantity.sub(int) -> quantity
ip(string) -> ip
ip.family() -> int
ip.isCanonical(string) -> bool
ip.isUnspecified() -> bool
ip.isLoopback() -> bool
ip.isLinkLocalMulticast() -> bool
ip.isLinkLocalUnicast() -> bool
ip.isGlobalUnicast() -> bool
isIP(string) -> bool
string(ip) -> string
cidr(string) -> cidr
cidr_contains_ip_string: cidr.containsIP(string) -> bool
cidr_contains_ip_ip: cidr.containsIP(ip) -> bool
cidr_contains_cidr_string: cidr.containsCIDR(string) -> bool
cidr_contains_cidr: cidr.containsCIDR(cidr) -> bool
cidr_ip: cidr.ip() -> ip
cidr.prefixLength() -> int
cidr.masked() -> cidr
isCIDR(string) -> bool
string(cidr) -> string
format.validate(string) -> optional(list(string))
format.named(string) -> optional(format)
semver(string) -> semver
semver(string, bool) -> semver
isSemver(string) -> bool
isSemver(string, bool) -> bool
semver.isGreaterThan(semver) -> bool
semver.isLessThan(semver) -> bool
semver.compareTo(semver) -> int
semver.major() -> int
semver.minor() -> int
semver.patch() -> int
authorizer.path(string) -> pathCheck
authorizer.group(string) -> groupCheck
authorizer.serviceAccount(string, string) -> authorizer
groupCheck.resource(string) -> resourceCheck
resourceCheck.subresource(string) -> resourceCheck
resourceCheck.namespace(string) -> resourceCheck
resourceCheck.name(string) -> resourceCheck
resourceCheck.fieldSelector(string) -> resourceCheck
resourceCheck.labelSelector(string) -> resourceCheck
pathCheck.check(string) -> decision
resourceCheck.check(string) -> decision
decision.errored() -> bool
decision.error() -> string
decision.allowed() -> bool
decision.reason() -> string
"""
#: Functions whose first name is that of a type but which are global.
_GLOBAL: Final = frozenset(
    {"optional.of", "optional.ofNonZeroValue", "optional.none", "optional.unwrap", "ip.isCanonical", "format.named"}
)
#: The formats of `format.<name>()`.
FORMATS: Final = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix", "dns1123SubdomainPrefix",
    "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime",
)  # fmt: skip
_SUMMED: Final = ("int", "uint", "double", "duration")
_SIGNATURE: Final = re.compile(
    r"(?:(?P<id>\w+): )?(?P<head>.+?)\((?P<args>[^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*)\) -> (?P<result>.+)"
)


def _lines() -> list[str]:
    found = [line for text in (_STANDARD, _EXTENSIONS, _KUBERNETES) for line in text.strip().splitlines()]
    for operator, name in (("<", "less"), ("<=", "less_equals"), (">", "greater"), (">=", "greater_equals")):
        found += [f"{name}_{_ID_NAMES.get(one, one)}: _{operator}_({one}, {one}) -> bool" for one in _ORDERED]
        found += [
            f"{name}_{_ID_NAMES.get(one, one)}_{_ID_NAMES.get(other, other)}: _{operator}_({one}, {other}) -> bool"
            for one, other in _MIXED
        ]
    # The order decides what an empty list is a list of.
    for one in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
        found += [f"list({one}).isSorted() -> bool", f"list({one}).max() -> {one}", f"list({one}).min() -> {one}"]
        found += [f"list({one}).sort() -> list({one})", f"list(A).@sortByAssociatedKeys(list({one})) -> list(A)"]
    found += [f"list({one}).sum() -> {one}" for one in _SUMMED]
    found += [f"format.{name}() -> format" for name in FORMATS]
    return found


def _parse_type(text: str) -> Type:
    text = text.strip()
    name, opening, rest = text.partition("(")
    if not opening:
        return _NAMED.get(name) or types.parameter(name)
    inner = tuple(_parse_type(one) for one in _split(rest[:-1]))
    if name == "optional":
        return types.optional_of(inner[0])
    return Type(name, name, inner)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text.strip() else []


def _parse(line: str) -> tuple[str, Overload]:
    matched = _SIGNATURE.fullmatch(line)
    if matched is None:
        raise ValueError(line)
    head, member = matched["head"], False
    args = [_parse_type(one) for one in _split(matched["args"])]
    owner, dot, name = head.rpartition(".")
    is_type = bool(dot) and (owner in _NAMED or owner.endswith(")"))
    if is_type and head not in _GLOBAL and not (owner == "format" and name in FORMATS):
        head, member = name, True
        args.insert(0, _parse_type(owner))
    result = _parse_type(matched["result"])
    return head, Overload(matched["id"] or line, member, tuple(args), result, tuple(_parameters(*args, result)))


def _parameters(*all_types: Type) -> list[Type]:
    found: list[Type] = []
    for one in all_types:
        inner = [one] if one.kind == "param" else _parameters(*one.params)
        found += [each for each in inner if each not in found]
    return found


def _table() -> dict[str, tuple[Overload, ...]]:
    table: dict[str, list[Overload]] = {}
    for line in _lines():
        name, overload = _parse(line)
        table.setdefault(name, []).append(overload)
    return {name: tuple(overloads) for name, overloads in table.items()}


FUNCTIONS: Final = _table()
#: Names of types, which are values too.
TYPE_NAMES: Final = {
    **{one: types.type_of(_NAMED[one]) for one in ("bool", "int", "uint", "double", "string", "bytes")},
    "null_type": types.type_of(types.NULL),
    "list": types.type_of(types.list_of(types.DYN)),
    "map": types.type_of(types.map_of(types.DYN, types.DYN)),
    "type": types.type_of(types.DYN),
    "google.protobuf.Duration": types.type_of(types.DURATION),
    "google.protobuf.Timestamp": types.type_of(types.TIMESTAMP),
}
