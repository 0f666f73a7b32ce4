"""Random bodies for every kind, as Hypothesis strategies: in the shape of the kind, nearly so, and not at all.

A structure follows the models of the API with its field names, and puts into each field what belongs there, what does
not, or a value at the edge. Bytes are such a structure as JSON, YAML or protobuf, whole or damaged, or anything.
"""

import functools
import json
import types
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as some

from rota.api import schemas
from rota.apiserver import yaml_values

_DEEPEST: Final = 6
_TEXTS: Final = some.one_of(
    some.sampled_from(
        [
            *("", "a", "A", "a-b", "-", "a/b", "../x", "/x", "a" * 64, "a" * 300, "ä", "\0", "\n", "100m", "1Gi", "-1"),
            *("2020-01-01T00:00:00Z", "0001-01-01", "10.0.0.1", "::1", "*", "Always", "Never", "ClusterIP", "TCP"),
            *("1e400", "99999999999999999999", "{}", "%s", "$(x)", "* * * * *", "@every 1s", "aGk=", "sha256:x"),
        ]
    ),
    some.text(max_size=8),
)
_INTEGERS: Final = some.sampled_from([0, 1, -1, 80, 65536, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**64, 10**30])
_FLOATS: Final = some.sampled_from([0.0, 0.5, -1.5, 1e308, 5e-324])
_SCALARS: Final = some.one_of(some.none(), some.booleans(), _INTEGERS, _FLOATS, _TEXTS)
_ANYTHING: Final = some.recursive(
    _SCALARS,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)


def of_kind(model: str | None, api_version: str, kind: str, name: str) -> some.SearchStrategy[Any]:
    """An object that claims to be of a kind; most have the right name."""
    shape = _struct(schemas.struct_of(model), 0) if model is not None else some.dictionaries(_TEXTS, _ANYTHING)
    typed = {"apiVersion": some.just(api_version), "kind": some.just(kind)}
    metadata = _struct(schemas.struct_of("meta_v1.ObjectMeta"), 2).map(lambda found: {**found, "name": name})
    plain = some.just({"name": name})
    headed = some.fixed_dictionaries({**typed, "metadata": some.one_of(plain, plain, metadata)})
    return some.one_of(
        some.tuples(shape, headed).map(lambda pair: {**pair[0], **pair[1]}),
        some.tuples(shape, headed).map(lambda pair: {**pair[0], **pair[1]}),
        shape,
        _ANYTHING,
    )


def json_patches(value: some.SearchStrategy[Any]) -> some.SearchStrategy[Any]:
    """A list of operations, some of which are none."""
    paths = some.sampled_from(
        [
            "",
            "/",
            "/metadata",
            "/metadata/labels",
            "/metadata/labels/a",
            "/spec",
            "/spec/containers/0",
            "/spec/-",
            "/x/~2",
        ]
    )
    operation = some.fixed_dictionaries(
        {"op": some.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]), "path": paths},
        optional={"value": value, "from": paths},
    )
    return some.lists(operation | _ANYTHING, max_size=4) | _ANYTHING


def as_json(value: some.SearchStrategy[Any]) -> some.SearchStrategy[bytes]:
    """Structures as JSON, some of them damaged."""
    return _damaged(value.map(lambda found: json.dumps(found).encode()))


def as_yaml(value: some.SearchStrategy[Any]) -> some.SearchStrategy[bytes]:
    """Structures as YAML, some of them damaged."""
    return _damaged(value.map(yaml_values.dump))


def as_protobuf(api_version: str, kind: str) -> some.SearchStrategy[bytes]:
    """Messages in an envelope of the kind, with fields of any number and wire type."""
    message = some.recursive(
        some.binary(max_size=8) | _TEXTS.map(lambda text: text.encode(errors="replace")),
        lambda inner: some.lists(some.tuples(some.integers(1, 20), inner), max_size=4).map(_message),
        max_leaves=10,
    )
    typed = _message([(1, api_version.encode()), (2, kind.encode())])
    envelope = message.map(lambda raw: b"k8s\0" + _message([(1, typed), (2, raw)]))
    return _damaged(envelope) | some.binary(max_size=40).map(lambda tail: b"k8s\0" + tail)


def _message(parts: list[tuple[int, bytes]]) -> bytes:
    return b"".join(bytes([number << 3 & 0x7F | 2]) + _varint(len(part)) + part for number, part in parts)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _damaged(bodies: some.SearchStrategy[bytes]) -> some.SearchStrategy[bytes]:
    def cut(pair: tuple[bytes, int]) -> bytes:
        return pair[0][: pair[1] % (len(pair[0]) + 1)]

    def flip(triple: tuple[bytes, int, int]) -> bytes:
        body, where, what = triple
        place = where % (len(body) + 1)
        return body[:place] + bytes([what]) + body[place + 1 :]

    place = some.integers(0, 4096)
    return some.one_of(
        bodies,
        bodies,
        bodies,
        some.tuples(bodies, place).map(cut),
        some.tuples(bodies, place, some.integers(0, 255)).map(flip),
        some.binary(max_size=60),
    )


@functools.cache
def _struct(struct: type[msgspec.Struct], depth: int) -> some.SearchStrategy[Any]:
    if depth >= _DEEPEST:
        return some.just({})
    fields = msgspec.structs.fields(struct)
    if not fields:
        return _ANYTHING
    choices = {field.encode_name: _later(functools.partial(_field, field.type, depth + 1)) for field in fields}

    def chosen(names: list[str]) -> some.SearchStrategy[Any]:
        return some.fixed_dictionaries({name: choices[name] for name in names})

    most = 6 if depth < 2 else 4
    return some.lists(some.sampled_from(sorted(choices)), unique=True, max_size=min(most, len(choices))).flatmap(chosen)


def _field(annotation: Any, depth: int) -> some.SearchStrategy[Any]:
    right = _right(annotation, depth)
    return some.integers(0, 15).flatmap(lambda rng: _ANYTHING if rng == 0 else right)


def _right(annotation: Any, depth: int) -> some.SearchStrategy[Any]:
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        kept = [one for one in inside if one is not type(None)]
        return some.one_of([_right(one, depth) for one in kept])
    if origin is list and inside:
        return some.lists(_later(functools.partial(_right, inside[0], depth)), max_size=3)
    if origin is dict and inside:
        return some.dictionaries(_TEXTS, _later(functools.partial(_right, inside[1], depth)), max_size=3)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _struct(annotation, depth)
    known = {str: _TEXTS, bool: some.booleans(), int: _INTEGERS, float: _FLOATS | _INTEGERS, datetime: _TEXTS}
    return known.get(annotation, _ANYTHING)


def _later(make: Callable[[], some.SearchStrategy[Any]]) -> some.SearchStrategy[Any]:
    def made() -> some.SearchStrategy[Any]:  # Hypothesis takes nothing but functions
        return make()

    return some.deferred(made)
