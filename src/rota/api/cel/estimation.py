"""The worst cost of an expression, estimated when it is declared.

Sizes of values come from the schema (`maxLength`, `maxItems`), by the path on which an expression reaches them. The
formulas and constants are the stock server's, because its refusals name the factor by which a rule is too expensive.
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

from msgspec import Struct

from rota.api.cel.syntax import (
    ACCUMULATOR,
    Call,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    ObjectLiteral,
    Select,
)
from rota.api.cel.types import Type, unwrap_optional

MOST: Final = 2**64 - 1
TRAVERSAL: Final = 0.1
REGEX: Final = 0.25
LIST_COST: Final = 10
MAP_COST: Final = 30
OBJECT_COST: Final = 40
#: One authorization check.
CHECK_COST: Final = 350_000
_SCALARS: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
#: Functions by what they cost; the rest of the libraries costs as operators do.
ONE: Final = frozenset(
    {
        *("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason"),
        *("error", "errored", "masked", "prefixLength", "family", "isUnspecified", "isLoopback"),
        *("isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger"),
        *("isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major"),
        *("minor", "patch", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery"),
    }
)
LISTED: Final = frozenset(["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"])
PARSED: Final = frozenset(["cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"])
KEPT: Final = frozenset(["lowerAscii", "upperAscii", "substring", "trim"])


class Range(Struct, frozen=True):
    """The least and the most of a size or cost."""

    least: int
    most: int

    def __add__(self, other: "Range") -> "Range":
        return Range(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def __mul__(self, other: "Range") -> "Range":
        return Range(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def times(self, factor: float) -> "Range":
        """Multiplied by a factor and rounded up."""
        return Range(_times(self.least, factor), _times(self.most, factor))

    def union(self, other: "Range") -> "Range":
        """What includes both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def _times(value: int, factor: float) -> int:
    product = float(value) * factor
    return MOST if product >= 2.0**64 else min(ceil(product), MOST)


UNKNOWN: Final = Range(0, MOST)
_NOTHING: Final = Range(0, 0)
_ONE: Final = Range(1, 1)

#: The size of what is reached on a path, if it is known.
Sizes = Callable[[Sequence[str]], Range | None]


class _Entry(Struct, frozen=True):
    """The sizes of the keys and values of a container."""

    kind: str
    key: Range
    value: Range

    def union(self, other: "_Entry | None") -> "_Entry | None":
        if other is None:
            return None
        return _Entry(self.kind, self.key.union(other.key), self.value.union(other.value))


class _Local(Struct, frozen=True):
    path: tuple[str, ...]
    size: Range | None
    entry: _Entry | None


def worst_cost(root: Node, sizes: Sizes) -> int:
    """The most that evaluation of a checked tree may cost."""
    return _Estimator(sizes).cost(root).most


class _Estimator:
    def __init__(self, sizes: Sizes) -> None:
        self._sizes: Final = sizes
        self._paths: Final[dict[int, tuple[str, ...]]] = {}
        self._locals: Final[dict[str, list[_Local]]] = {}
        self._computed: Final[dict[int, Range]] = {}
        self._entries: Final[dict[int, _Entry]] = {}

    def cost(self, node: Node) -> Range:
        match node:
            case Ident():
                local = self._local(node.name)
                self._paths[id(node)] = local.path if local is not None else (node.name,)
                return _ONE
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case ObjectLiteral():
                return self._sum(node) + Range(OBJECT_COST, OBJECT_COST)
            case Fold():
                return self._bind(node) if node.macro == "bind" else self._fold(node)
        return _NOTHING

    def _sum(self, node: Node) -> Range:
        total = _NOTHING
        for child in node.children():
            total += self.cost(child)
        return total

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _path(self, node: Node) -> tuple[str, ...]:
        if isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.path
        return self._paths.get(id(node), ())

    def _select(self, node: Select) -> Range:
        if node.qualified:
            self._paths[id(node)] = (node.qualified,)
            return _ONE
        total = self.cost(node.operand)
        if node.test:
            return total
        if node.operand.type.kind in ("map", "struct", "param"):
            total += _ONE
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        return total

    def _list(self, node: ListLiteral) -> Range:
        total = self._sum(node)
        size = Range(MOST if node.elements else 0, 0)
        for one in node.elements:
            size = size.union(self._size(one))
        self._entries[id(node)] = _Entry("list", _ONE, size)
        return total + Range(LIST_COST, LIST_COST)

    def _map(self, node: MapLiteral) -> Range:
        total = self._sum(node)
        keys = values = Range(MOST if node.entries else 0, 0)
        for key, value, _ in node.entries:
            keys, values = keys.union(self._size(key)), values.union(self._size(value))
        self._entries[id(node)] = _Entry("map", keys, values)
        return total + Range(MAP_COST, MAP_COST)

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _push_items(self, node: Fold) -> None:
        source = node.source
        entry = self._entry(source)
        kind = entry.kind if entry is not None else source.type.kind
        path, is_list = self._path(source), kind == "list"
        keys, values = (entry.key, entry.value) if entry is not None else (None, None)
        if node.variable2:
            self._push(node.variable, _Local((*path, "@indices" if is_list else "@keys"), keys, None))
            self._push(node.variable2, _Local((*path, "@items" if is_list else "@values"), values, None))
        else:
            self._push(
                node.variable,
                _Local((*path, "@items" if is_list else "@keys"), values if is_list else keys, None),
            )

    def _fold(self, node: Fold) -> Range:
        total = self.cost(node.source) + self.cost(node.initial)
        initial = _Local(self._path(node.initial), self._size_of(node.initial), self._entry(node.initial))
        self._push(node.accumulator, initial)
        self._push_items(node)
        loop = self.cost(node.condition) + self.cost(node.step)
        step_entry = self._entry(node.step)
        self._locals[node.variable].pop()
        if node.variable2:
            self._locals[node.variable2].pop()
        total += self.cost(node.result)
        self._locals[node.accumulator].pop()
        count = self._size(node.source)
        total += count * loop
        if isinstance(node.initial, Literal):
            self._set(node, self._size_of(node.initial))
        elif isinstance(node.initial, ListLiteral | MapLiteral):
            self._computed[id(node)] = count
            if step_entry is not None:
                self._entries[id(node)] = step_entry
        return total

    def _bind(self, node: Fold) -> Range:
        total = self.cost(node.source) + self.cost(node.initial)
        self._push(
            node.accumulator, _Local(self._path(node.initial), self._size_of(node.initial), self._entry(node.initial))
        )
        total += self.cost(node.result)
        self._copy(node, node.result)
        self._locals[node.accumulator].pop()
        return total

    def _copy(self, node: Node, other: Node) -> None:
        self._set(node, self._size_of(other))
        entry = self._entry(other)
        if entry is not None:
            self._entries[id(node)] = entry

    def _set(self, node: Node, size: Range | None) -> None:
        if size is not None:
            self._computed[id(node)] = size

    def _entry(self, node: Node) -> _Entry | None:
        found = self._entries.get(id(node))
        if found is None and isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.entry
        return found

    def _size(self, node: Node) -> Range:
        return self._size_of(node) or UNKNOWN

    def _size_of(self, node: Node) -> Range | None:
        found = self._computed.get(id(node)) or _own_size(node)
        if found is not None:
            return found
        path = self._path(node)
        if path and path[0] != ACCUMULATOR and (found := self._sizes(path)) is not None:
            self._computed[id(node)] = found
            return found
        if _is_scalar(node.type):
            return _ONE
        if isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.size
        return None

    def _call(self, node: Call) -> Range:
        if node.function == "dyn":
            total = _ONE + self.cost(node.args[0])
            self._copy(node, node.args[0])
            return total
        costs = [self.cost(arg) for arg in node.args]
        if not node.overloads:
            return _NOTHING
        total = self.cost(node.target) if node.target is not None else _NOTHING
        cost, size = Range(MOST, 0), None
        for overload in node.overloads:
            one, result = self._function(node, overload, costs)
            cost = cost.union(one)
            if result is not None:
                size = result if size is None else size.union(result)
            if overload in ("index_list", "index_map"):
                entry = self._entry(node.args[0])
                size = entry.value if entry is not None else None
                below = "@items" if overload == "index_list" else "@values"
                self._paths[id(node)] = (*self._path(node.args[0]), below)
            if size is None:
                size = self._size_of(node)
        self._set(node, size)
        return total + cost

    def _function(self, node: Call, overload: str, costs: list[Range]) -> tuple[Range, Range | None]:
        own = self._library(node, overload)
        total = _NOTHING
        for one in costs:
            total += one
        if own is not None:
            return own[0] + total, own[1]
        return self._operator(node, overload, costs, total)

    def _operator(self, node: Call, overload: str, costs: list[Range], total: Range) -> tuple[Range, Range | None]:
        own = self._text_operator(node, overload)
        if own is not None:
            return own[0] + total, own[1]
        args = node.args
        match overload:
            case "logical_or" | "logical_and":
                return Range(costs[0].least, (costs[0] + costs[1]).most), None
            case "conditional":
                self._merge_entries(node, args[1], args[2])
                return costs[0] + costs[1].union(costs[2]), self._size(args[1]).union(self._size(args[2]))
            case "add_string" | "add_bytes" | "add_list":
                size = self._size(args[0]) + self._size(args[1])
                self._merge_entries(node, args[0], args[1])
                return (_ONE if overload == "add_list" else size.times(TRAVERSAL)) + total, size
        if overload in COMPARED:
            most = min(self._size(args[0]).most, self._size(args[1]).most)
            return Range(int(most > 0), most).times(TRAVERSAL) + total, None
        return _ONE + total, None

    def _merge_entries(self, node: Call, one: Node, other: Node) -> None:
        first = self._entry(one)
        entry = first.union(self._entry(other)) if first is not None else None
        if entry is not None:
            self._entries[id(node)] = entry

    def _text_operator(self, node: Call, overload: str) -> tuple[Range, Range | None] | None:
        """The cost of the call itself, without its arguments."""
        args = node.args
        match overload:
            case "string_format" if node.target is not None:
                return self._size(node.target).times(TRAVERSAL), None
            case "string_to_bytes":
                size = self._size(args[0])
                return size.times(TRAVERSAL), Range(size.least, min(size.most * 4, MOST))
            case "bytes_to_string":
                size = self._size(args[0])
                return size.times(TRAVERSAL), Range(size.least // 4, size.most)
            case "strings_quote":
                size = self._size(args[0])
                return size.times(TRAVERSAL), Range(size.least + 2, min(size.most * 2 + 2, MOST))
            case "starts_with_string" | "ends_with_string":
                return self._size(args[0]).times(TRAVERSAL), None
            case "in_list":
                return self._size(args[1]).times(1), None
            case "matches_string" if node.target is not None:
                return self._regex(node.target, args[0]), None
            case "contains_string" if node.target is not None:
                return self._size(node.target).times(TRAVERSAL) * self._size(args[0]).times(TRAVERSAL), None
        return None

    def _regex(self, text: Node, pattern: Node) -> Range:
        return (self._size(text) + _ONE).times(TRAVERSAL) * self._size(pattern).times(REGEX)

    def _library(self, node: Call, overload: str) -> tuple[Range, Range | None] | None:
        name, args, target = node.function, node.args, node.target
        if name == "check":
            return Range(CHECK_COST, CHECK_COST), None
        if name in ONE or overload == "cidr_ip":
            return _ONE, None
        if target is not None and (found := self._member(node, target, overload)) is not None:
            return found
        if name in ("url", "jsonpatch.escapeKey"):
            size = self._size(args[0])
            return size.times(TRAVERSAL), size
        if name in PARSED or name == "ip":
            return self._size(args[0]).times(TRAVERSAL), None
        if name == "ip.isCanonical":
            return self._size(args[0]).times(2 * TRAVERSAL), None
        if name == "_==_":
            return self._same(args[0].type, args[1].type)
        return None

    def _member(self, node: Call, target: Node, overload: str) -> tuple[Range, Range | None] | None:
        name, args = node.function, node.args
        size = self._size(target)
        if name in LISTED:
            return self._listed(target), None
        if name in KEPT:
            return size.times(TRAVERSAL), size
        if name == "replace":
            return size.times(2 * TRAVERSAL), self._replaced(size, self._size(args[0]), self._size(args[1]))
        if name == "split":
            limit = args[1].value if len(args) > 1 and isinstance(args[1], Literal) else None
            most = limit % (MOST + 1) if isinstance(limit, int) else size.most
            return size.times(2 * TRAVERSAL), Range(0, most)
        if name == "join":
            joined = self._joined(target, args)
            return joined.times(TRAVERSAL), joined
        if name in ("find", "findAll"):
            return self._regex(target, args[0]), Range(0, size.most)
        if name in ("containsIP", "containsCIDR"):
            return self._contained(name, overload, args), None
        if name == "validate":
            return self._size(args[0]).times(TRAVERSAL).times(128 * REGEX), None
        if name in ("fieldSelector", "labelSelector"):
            return selector_cost(self._size(args[0])), None
        return None

    def _listed(self, target: Node) -> Range:
        size = self._size(target)
        if not target.type.params:
            return size.times(TRAVERSAL)
        each = _ONE
        if target.type.params[0].kind in ("string", "bytes"):
            each += self._element(target).times(TRAVERSAL)
        return size * each

    def _element(self, target: Node) -> Range:
        path = self._path(target)
        found = self._sizes((*path, "@items")) if path and path[0] != ACCUMULATOR else None
        return found or UNKNOWN

    def _joined(self, target: Node, args: list[Node]) -> Range:
        count = self._size(target)
        size = count * self._element(target) if target.type.params else _NOTHING
        if args:
            between = Range(max(count.least - 1, 0), max(count.most - 1, 0))
            size += self._size(args[0]) * between
        return size

    @staticmethod
    def _replaced(size: Range, old: Range, new: Range) -> Range:
        most_kept = least_kept = 0
        if old.least == 0:
            most, most_kept = min(size.most + 1, MOST), size.most
        elif new.most <= old.least:
            most, most_kept = 0, size.most
        else:
            most = ceil(float(size.most) / float(old.least))
        if old.most == 0:
            least, least_kept = min(size.least + 1, MOST), size.least
        elif old.most <= new.least:
            least, least_kept = 0, size.least
        else:
            least = ceil(float(size.least) / float(old.most))
        return Range(least, most) * new + Range(least_kept, most_kept)

    def _contained(self, name: str, overload: str, args: list[Node]) -> Range:
        address = Range(4, 16)
        cost = (address + address).times(TRAVERSAL)
        if name == "containsCIDR":
            cost += address.times(TRAVERSAL) + _ONE
        if overload.endswith("_string"):
            cost += self._size(args[0]).times(TRAVERSAL)
        return cost

    @staticmethod
    def _same(one: Type, other: Type) -> tuple[Range, Range | None] | None:
        if one != other:
            return None
        if one.name in ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver") or one.name.startswith(
            "kubernetes.authorization."
        ):
            return _ONE, None
        if one.name == "kubernetes.NamedFormat":
            return Range(1, 64).times(TRAVERSAL), None
        if one.name == "kubernetes.URL":
            return _ONE, None
        return None


COMPARED: Final = frozenset(
    [f"{name}_{kind}" for name in ("less", "greater", "less_equals", "greater_equals") for kind in ("string", "bytes")]
    + ["equals", "not_equals"]
)


def selector_cost(length: Range) -> Range:
    """The cost of parsing a selector."""
    requirements = length.times(0.5)
    return Range(LIST_COST, LIST_COST) + length.times(TRAVERSAL) + requirements.times(float(LIST_COST + OBJECT_COST))


def _own_size(node: Node) -> Range | None:
    match node:
        case Literal():
            value = node.value
            count = len(value) if isinstance(value, str | bytes) else 1
        case ListLiteral():
            count = len(node.elements)
        case MapLiteral():
            count = len(node.entries)
        case _:
            return None
    return Range(count, count)


def _is_scalar(one: Type) -> bool:
    inner, was = unwrap_optional(one)
    return _is_scalar(inner) if was else one.kind in _SCALARS
