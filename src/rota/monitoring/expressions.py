"""The names of metrics in a PromQL expression, so that tests compare them with the metrics that exist. Pure."""

import re
from typing import Final

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACES: Final = re.compile(r"\{[^{}]*\}|\[[^\]]*\]")
_GROUPING: Final = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)")
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_OPERATORS: Final = frozenset({"and", "or", "unless", "bool", "offset"})


def metrics(expr: str) -> frozenset[str]:
    """The metrics that an expression reads; not those that it selects by a pattern of their names."""
    bare = _STRING.sub("", expr)
    bare = _GROUPING.sub(" ", _BRACES.sub(" ", bare))
    return frozenset(
        found[0]
        for found in _NAME.finditer(bare)
        if found[0] not in _OPERATORS and not bare[found.end() :].lstrip().startswith("(")
        if not (found.start() and bare[found.start() - 1].isdigit())
    )
