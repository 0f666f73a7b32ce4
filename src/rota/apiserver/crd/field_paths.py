"""Field paths of rules: `.spec.names` or `['a.b']`, checked against the schema that they lead through."""

import re
from typing import Final

from rota.apiserver.crd.structure import JsonSchema

_TOKEN: Final = re.compile(r"'(?:\\.|[^\\'])*'|[.\[\]]|[^.\[\]']+|'", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def read(text: str, schema: JsonSchema) -> str:
    """The path as errors write it; ValueError if it leads nowhere."""
    tokens = _TOKEN.findall(text)
    path, at = "", 0
    while at < len(tokens):
        piece = tokens[at]
        if piece == "." and at + 1 < len(tokens):
            name, at = tokens[at + 1], at + 2
        elif piece == "[" and at + 2 < len(tokens) and tokens[at + 2] == "]":
            name, at = _unquoted(tokens[at + 1]), at + 3
        else:
            raise ValueError(text)
        path, schema = _below(path, name, schema)
    return path


def _unquoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise ValueError(token)
    if any(one not in _ESCAPES for one in _ESCAPE.findall(token[1:-1])):
        raise ValueError(token)
    return _ESCAPE.sub(lambda one: _ESCAPES[one[1]], token[1:-1])


def _below(path: str, name: str, schema: JsonSchema) -> tuple[str, JsonSchema]:
    properties, additional = schema.get("properties"), schema.get("additionalProperties")
    if properties:
        if name not in properties:
            raise ValueError(name)
        return (f"{path}.{name}" if path else name), properties[name]
    if isinstance(additional, dict):
        return f"{path}[{name}]", additional
    raise ValueError(name)
