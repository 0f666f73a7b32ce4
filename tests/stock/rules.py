"""Random CEL rules over one schema, and random objects of it: most rules compile, some do not, some fail."""

import random
from collections.abc import Callable, Sequence
from typing import Any

STRING = {"type": "string", "maxLength": 40}
#: The schema of `spec`, in which rules of all kinds find something.
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": STRING,
        "count": {"type": "integer"},
        "limit": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "names": {"type": "array", "maxItems": 10, "items": STRING},
        "numbers": {"type": "array", "maxItems": 10, "items": {"type": "integer"}},
        "tags": {"type": "array", "maxItems": 10, "x-kubernetes-list-type": "set", "items": STRING},
        "labels": {"type": "object", "maxProperties": 10, "additionalProperties": STRING},
        "at": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "data": {"type": "string", "format": "byte", "maxLength": 40},
        "port": {"x-kubernetes-int-or-string": True, "maxLength": 20},
        "amount": STRING,
        "address": STRING,
        "in": {"type": "integer"},
        "a-b.c/d": {"type": "integer"},
        "parts": {
            "type": "array",
            "maxItems": 5,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": STRING, "size": {"type": "integer"}, "on": {"type": "boolean"}},
            },
        },
    },
}
_TEXTS = (
    "",
    "a",
    "abc",
    "b-1",
    "10.0.0.1",
    "1Gi",
    "v1.2.3",
    "https://a.b:80/c?d=e",
    "2024-01-02T03:04:05Z",
    "1h30m",
    "é世",
    "10",
)
_GETTERS = ("getFullYear", "getMonth", "getDate", "getDayOfWeek", "getHours", "getDayOfYear")
_NUMBERS = (0, 1, 2, 3, 7, -1, 100, 9223372036854775807)


class Rules:
    """Random expressions, by the type of their value."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._variables: list[tuple[str, str]] = []

    def rule(self) -> str:
        """A rule; one in twenty has a type error somewhere."""
        return self._of("bool", self._rng.randint(1, 4))

    def _of(self, kind: str, depth: int) -> str:
        if self._rng.random() < 0.01:
            kind = self._rng.choice(("int", "string", "bool", "double"))
        choices: Sequence[Callable[[int], str]] = getattr(self, f"_{kind}")()
        return self._rng.choice(choices)(depth - 1) if depth > 0 else self._leaf(kind)

    def _leaf(self, kind: str) -> str:
        pick = self._rng.choice
        bound = [name for name, type_ in self._variables if type_ == kind]
        if bound and self._rng.random() < 0.6:
            return pick(bound)
        match kind:
            case "bool":
                return pick(("true", "false", "self.on", "has(self.name)", "has(self.on)", "self.count > 1"))
            case "int":
                return pick(
                    (
                        "self.count",
                        "self.limit",
                        "size(self.name)",
                        str(pick(_NUMBERS)),
                        "self.__in__",
                        "self.a__dash__b__dot__c__slash__d",
                    )
                )
            case "uint":
                return pick(("1u", "uint(self.count)", "7u"))
            case "double":
                return pick(("self.ratio", "1.5", "0.0", "double(self.count)", "1e3"))
            case "string":
                return pick(("self.name", "self.amount", "self.address", repr(pick(_TEXTS)), "string(self.count)"))
            case "strings":
                return pick(("self.names", "self.tags", "['a', 'b']", "self.parts.map(p, p.name)"))
            case "ints":
                return pick(("self.numbers", "[1, 2, 3]", "self.names.map(n, size(n))"))
            case "duration":
                return pick(("self.wait", "duration('90s')"))
            case "timestamp":
                return pick(("self.at", "timestamp('2023-06-01T12:30:00Z')"))
        return "self.port"

    def _bool(self) -> Sequence[Callable[[int], str]]:
        of, pick = self._of, self._rng.choice
        compare = ("<", "<=", ">", ">=", "==", "!=")
        kinds = ("int", "string", "double", "duration", "timestamp")

        def ordered(depth: int) -> str:
            kind = pick(kinds)
            return f"{of(kind, depth)} {pick(compare)} {of(kind, depth)}"

        def quantified(depth: int) -> str:
            source, kind = pick((("strings", "string"), ("ints", "int")))
            name = pick(("x", "y"))
            self._variables.append((name, kind))
            body = of("bool", depth)
            self._variables.pop()
            return f"{of(source, 0)}.{pick(('all', 'exists', 'exists_one'))}({name}, {body})"

        return (
            ordered,
            ordered,
            quantified,
            lambda d: f"({of('bool', d)} {pick(('&&', '||'))} {of('bool', d)})",
            lambda d: f"!({of('bool', d)})",
            lambda d: f"({of('bool', d)} ? {of('bool', d)} : {of('bool', d)})",
            lambda d: f"{of('string', d)}.{pick(('contains', 'startsWith', 'endsWith'))}({of('string', d)})",
            lambda d: f"{of('string', d)}.matches('{pick(('^a', '[0-9]+', '(a|b)c?$', '^[a-z-]*$'))}')",
            lambda d: f"{of('string', d)} in {of('strings', d)}",
            lambda d: f"{of('string', d)} in self.labels",
            lambda d: f"{of('strings', d)} == {of('strings', d)}",
            lambda d: f"{of('ints', d)} == {of('ints', d)}",
            lambda d: f"sets.{pick(('contains', 'equivalent', 'intersects'))}({of('ints', d)}, {of('ints', d)})",
            lambda d: f"{of('ints', d)}.isSorted()",
            lambda d: f"{pick(('isQuantity', 'isIP', 'isCIDR', 'isURL', 'isSemver'))}({of('string', d)})",
            lambda d: (
                f"quantity({of('string', d)}).{pick(('isGreaterThan', 'isLessThan'))}(quantity({of('string', d)}))"
            ),
            lambda d: f"ip({of('string', d)}).isLoopback()",
            lambda d: f"cidr('10.0.0.0/8').containsIP({of('string', d)})",
            lambda d: f"self.labels[?{of('string', d)}].orValue({of('string', d)}) == {of('string', d)}",
            lambda d: "self.?name.hasValue()",
            lambda _: "type(self.port) == string ? self.port == 'a' : self.port > 5",
            lambda _: "self.parts.all(p, has(p.size) && p.size > 1)",
            lambda d: f"self.labels.all(k, self.labels[k] != {of('string', d)})",
            lambda d: f"{of('uint', d)} < {of('uint', d)}",
            lambda _: "self.data.size() > 2",
            lambda d: (
                f"!format.{pick(('dns1123Label', 'qualifiedName', 'uuid'))}().validate({of('string', d)}).hasValue()"
            ),
        )

    def _int(self) -> Sequence[Callable[[int], str]]:
        of, pick = self._of, self._rng.choice
        return (
            lambda d: f"({of('int', d)} {pick(('+', '-', '*', '/', '%'))} {of('int', d)})",
            lambda d: f"-{of('int', 0)}" if pick((0, 1)) else f"-({of('int', d)})",
            lambda d: f"size({of('string', d)})",
            lambda d: f"{of('strings', d)}.size()",
            lambda d: f"{of('ints', d)}.{pick(('sum', 'max', 'min'))}()",
            lambda d: f"{of('string', d)}.{pick(('indexOf', 'lastIndexOf'))}({of('string', d)})",
            lambda d: f"{of('ints', d)}[{of('int', d)}]",
            lambda d: f"({of('bool', d)} ? {of('int', d)} : {of('int', d)})",
            lambda d: f"int({of('string', d)})",
            lambda d: f"int({of('double', d)})",
            lambda d: f"{of('timestamp', d)}.{pick(_GETTERS)}()",
            lambda d: f"{of('duration', d)}.{pick(('getHours', 'getMinutes', 'getSeconds', 'getMilliseconds'))}()",
            lambda d: f"quantity({of('string', d)}).compareTo(quantity('1'))",
        )

    def _uint(self) -> Sequence[Callable[[int], str]]:
        return (lambda d: f"({self._of('uint', d)} {self._rng.choice('+-*/')} {self._of('uint', d)})",)

    def _double(self) -> Sequence[Callable[[int], str]]:
        of, pick = self._of, self._rng.choice
        return (
            lambda d: f"({of('double', d)} {pick('+-*/')} {of('double', d)})",
            lambda d: f"double({of('int', d)})",
            lambda d: f"quantity({of('string', d)}).asApproximateFloat()",
        )

    def _string(self) -> Sequence[Callable[[int], str]]:
        of, pick = self._of, self._rng.choice
        return (
            lambda d: f"({of('string', d)} + {of('string', d)})",
            lambda d: f"string({of(pick(('int', 'double', 'bool', 'duration', 'timestamp', 'uint')), d)})",
            lambda d: f"{of('string', d)}.{pick(('lowerAscii', 'upperAscii', 'trim'))}()",
            lambda d: f"{of('string', d)}.substring({of('int', 0)})",
            lambda d: f"{of('string', d)}.substring(0, {of('int', 0)})",
            lambda d: f"{of('string', d)}.replace({of('string', 0)}, {of('string', 0)})",
            lambda d: f"{of('string', d)}.charAt({of('int', 0)})",
            lambda d: f"{of('string', d)}.find('[a-z]+')",
            lambda d: f"{of('strings', d)}.join({of('string', 0)})",
            lambda d: f"{of('strings', d)}[{of('int', 0)}]",
            lambda d: f"self.labels[{of('string', d)}]",
            lambda d: f"'%s-%s'.format([{of('string', d)}, {of('string', d)}])",
            lambda d: f"'%d'.format([{of('int', d)}])",
            lambda d: f"'%.3f'.format([{of('double', d)}])",
            lambda d: f"url({of('string', d)}).{pick(('getHost', 'getPort', 'getScheme', 'getEscapedPath'))}()",
            lambda d: f"({of('bool', d)} ? {of('string', d)} : {of('string', d)})",
        )

    def _strings(self) -> Sequence[Callable[[int], str]]:
        of = self._of
        return (
            lambda d: f"({of('strings', d)} + {of('strings', d)})",
            lambda d: f"{of('string', d)}.split('-')",
            lambda d: f"{of('strings', 0)}.filter(s, s != {of('string', d)})",
            lambda d: f"{of('strings', 0)}.map(s, s + {of('string', d)})",
            lambda d: f"{of('string', d)}.findAll('[a-z]')",
            lambda d: f"[{of('string', d)}, {of('string', d)}]",
        )

    def _ints(self) -> Sequence[Callable[[int], str]]:
        of = self._of
        return (
            lambda d: f"({of('ints', d)} + {of('ints', d)})",
            lambda d: f"{of('ints', 0)}.map(i, i * {of('int', d)})",
            lambda d: f"{of('ints', 0)}.filter(i, i > {of('int', d)})",
            lambda d: f"[{of('int', d)}, {of('int', d)}]",
        )

    def _duration(self) -> Sequence[Callable[[int], str]]:
        of = self._of
        return (
            lambda d: f"({of('duration', d)} + {of('duration', d)})",
            lambda d: f"({of('timestamp', d)} - {of('timestamp', d)})",
            lambda d: f"duration({of('string', d)})",
        )

    def _timestamp(self) -> Sequence[Callable[[int], str]]:
        of, pick = self._of, self._rng.choice
        return (
            lambda d: f"({of('timestamp', d)} {pick('+-')} {of('duration', d)})",
            lambda d: f"timestamp({of('string', d)})",
        )


def spec(rng: random.Random) -> dict[str, Any]:
    """A random object of the schema."""

    def text() -> str:
        return rng.choice(_TEXTS)

    whole: dict[str, Any] = {
        "name": text(), "count": rng.choice(_NUMBERS), "limit": rng.choice(_NUMBERS),
        "ratio": rng.choice((0.5, 1, 2.25, -3)),
        "on": rng.random() < 0.5, "names": [text() for _ in range(rng.randint(0, 3))],
        "numbers": [rng.choice(_NUMBERS[:7]) for _ in range(rng.randint(0, 4))],
        "tags": rng.sample(_TEXTS, rng.randint(0, 3)), "labels": {key: text() for key in rng.sample(_TEXTS, 2)},
        "at": rng.choice(("2024-01-02T03:04:05Z", "2023-06-01T12:30:00.25+02:00")),
        "wait": rng.choice(("90s", "1h30m", "0s")),
        "data": rng.choice(("", "aGVsbG8=")), "port": rng.choice((80, "a", 3)), "amount": text(), "address": text(),
        "in": 3, "a-b.c/d": 4,
        "parts": [{"name": name, "size": rng.choice(_NUMBERS[:4])} for name in rng.sample(_TEXTS, 2)],
    }  # fmt: skip
    for name in rng.sample(sorted(whole), rng.randint(0, 4)):
        del whole[name]
    return whole
