"""From text to typed values: YAML or JSON in, structs out, every error with its path.

Kubernetes reads component configuration strictly, and so does this module. A field that the struct does not have, a
duplicate key and a value of the wrong type are faults. A null value counts as absent, as in Go. The structs are in
`wire` and `args`.
"""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import inspect

from rota.scheduler.config import durations
from rota.scheduler.config.faults import ConfigurationError, Fault, join

T = TypeVar("T")

UNKNOWN_FIELD = "unknown field; remove it or correct its spelling"

_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?:key` in `)?\$\.?(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<field>.*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<field>.*)`$")


class _StrictLoader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: duplicate keys are refused, and dates stay strings."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    loader.flatten_mapping(node)
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is not a string; put it in quotes", key_node.start_mark
            )
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f'key "{key}" is written twice; keep one of them', key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


def _as_string(loader: _StrictLoader, node: yaml.ScalarNode) -> object:
    return loader.construct_scalar(node)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_StrictLoader.add_constructor("tag:yaml.org,2002:timestamp", _as_string)


def parse(text: str | bytes) -> object:
    """Read one YAML (or JSON) document into plain dicts, lists and scalars."""
    try:
        return yaml.load(text, _StrictLoader)  # noqa: S506 - a safe loader with stricter mappings
    except yaml.YAMLError as error:
        raise ConfigurationError([Fault("", _yaml_message(error))]) from error


def parse_all(text: str | bytes) -> list[object]:
    """Read a stream of YAML (or JSON) documents; empty ones are left out."""
    try:
        found = list(yaml.load_all(text, _StrictLoader))
    except yaml.YAMLError as error:
        raise ConfigurationError([Fault("", _yaml_message(error))]) from error
    return [document for document in found if document is not None]


def convert(value: object, into: type[T], *, path: str = "") -> T:
    """Turn plain data into a struct; a mismatch becomes a `ConfigurationError` with the path below `path`."""
    plain = without_nulls(value)
    try:
        converted = msgspec.convert(plain, into, dec_hook=_decode_custom)
    except msgspec.ValidationError as error:
        raise ConfigurationError([fault_of(error).below(path)]) from error
    if faults := list(_unknown_fields(plain, inspect.type_info(into))):
        raise ConfigurationError([fault.below(path) for fault in faults])
    return converted


def fault_of(error: msgspec.ValidationError) -> Fault:
    """Convert msgspec's message to a fault with its path."""
    found = _AT.match(str(error))
    assert found is not None, "the pattern matches any text"
    what, path = found["what"], found["path"] or ""
    if unknown := _UNKNOWN.match(what):
        return Fault(join(path, unknown["field"]), UNKNOWN_FIELD)
    if missing := _MISSING.match(what):
        return Fault(join(path, missing["field"]), "is required")
    return Fault(path, what.replace("`", ""))


def without_nulls(value: object) -> object:
    """Drop the keys of mappings whose value is null, at any depth."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def indexed(path: str, items: Sequence[T]) -> Iterator[tuple[str, T]]:
    """Walk a list together with the path of each item."""
    for position, item in enumerate(items):
        yield f"{path}[{position}]", item


def _unknown_fields(value: object, kind: inspect.Type) -> Iterator[Fault]:
    """Find what structs that do not refuse unknown fields by themselves (views of API objects) have dropped."""
    if isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _unknown_fields(value, each)
    elif isinstance(kind, inspect.StructType) and isinstance(value, Mapping):
        known = {field.encode_name: field.type for field in kind.fields}
        for name, item in value.items():
            if name not in known:
                yield Fault(name, UNKNOWN_FIELD)
            else:
                yield from (fault.below(name) for fault in _unknown_fields(item, known[name]))
    elif isinstance(kind, inspect.CollectionType) and isinstance(value, list):
        for position, item in enumerate(value):
            yield from (fault.below(f"[{position}]") for fault in _unknown_fields(item, kind.item_type))


def _decode_custom(into: type[Any], value: object) -> object:
    if into is durations.Duration:
        if not isinstance(value, str):
            raise ValueError(f'expected a duration such as "15s", got {value!r}')
        return durations.parse(value)
    raise TypeError(f"no way to read {into.__name__} from a configuration file")


def _yaml_message(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
    return f"not readable as YAML or JSON: {problem}{where}"
