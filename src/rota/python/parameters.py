"""The parameters of a pipeline, from the signature of its function: names, types, defaults, choices. Pure.

Parameters of runs are strings. The annotation says how one is parsed: `str` as it is, `int`, `float` and `bool` as
such, `Literal[...]` as one of these, anything else as JSON.
"""

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.python import task_runner
from rota.python.pipeline_builder import PipelineError

_PLAIN: Final[Mapping[Any, str]] = {str: "text", int: "int", float: "float", bool: "bool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter."""

    name: str
    #: How its text is parsed; for a list, also its items: `json:int`.
    kind: str
    #: The text of its default; None if it is required.
    default: str | None
    choices: tuple[str, ...] = ()

    def manifest(self) -> dict[str, Any]:
        """Its entry in a Pipeline."""
        made: dict[str, Any] = {"name": self.name}
        if self.default is not None:
            made["default"] = self.default
        if self.choices:
            made["choices"] = list(self.choices)
        return made

    def text(self, value: Any) -> str:
        """A value as text for a run."""
        wanted: dict[str, tuple[type, ...]] = {"text": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}
        kinds = wanted.get(self.kind)
        sound = task_runner.is_plain(value) if kinds is None else type(value) in kinds
        if not sound:
            what = {"text": "text", "json": "value that JSON knows"}.get(self.kind.partition(":")[0], self.kind)
            raise PipelineError(f"the parameter {self.name} is a {what}, and {value!r} is none")
        text = value if self.kind == "text" else json.dumps(value)
        if self.choices and text not in self.choices:
            raise PipelineError(f"the parameter {self.name} is one of {', '.join(self.choices)}, and not {text}")
        return str(text)


def of(function: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters of a pipeline's function, by name."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):  # annotations with types that are imported for type checkers only
        hints = {}
    found: dict[str, Parameter] = {}
    for name, one in inspect.signature(function).parameters.items():
        if one.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            raise PipelineError(
                f"{function.__qualname__}: *{name} cannot be a parameter of a pipeline", "name each of them"
            )
        has_default = one.default is not inspect.Parameter.empty
        hint = hints.get(name, type(one.default) if has_default and one.default is not None else str)
        kind, choices = _read(hint)
        bare = Parameter(name=name, kind=kind, default=None, choices=choices)
        default = bare.text(one.default) if has_default else None
        found[name] = Parameter(name=name, kind=kind, default=default, choices=choices)
    return found


def given(function: str, known: Mapping[str, Parameter], values: Mapping[str, Any]) -> list[dict[str, str]]:
    """The parameters of a run; unknown and missing ones are refused by name."""
    for name in values:
        if name not in known:
            there = ", ".join(known) or "none"
            raise PipelineError(f"{function} has no parameter {name}", f"there are {there}")
    missing = [name for name, one in known.items() if one.default is None and name not in values]
    if missing:
        raise PipelineError(f"{function} needs {', '.join(missing)}")
    return [{"name": name, "value": known[name].text(value)} for name, value in values.items()]


def _read(hint: Any) -> tuple[str, tuple[str, ...]]:
    if hint in _PLAIN:
        return _PLAIN[hint], ()
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal and all(type(one) is str for one in arguments):
        return "text", arguments
    if origin is list and len(arguments) == 1:
        return f"json:{_PLAIN.get(arguments[0], 'json')}", ()
    return "json", ()
