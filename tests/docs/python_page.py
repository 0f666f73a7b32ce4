"""The page docs/reference/python.md, written from the code itself."""

import ast
import inspect
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import rota
from rota.python.options import TaskOptions
from rota.python.pipeline_builder import StepOptions
from rota.python.pipelines import PipelineOptions

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
_HEAD: Final = """\
# Python

All that `import rota` has. This page is written by a test from the code itself: change that, then run
`REWRITE_REFERENCE=1 pytest tests/docs/test_python.py`. How to use it: [howto](../howto/use-from-python.md).
"""
_SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Clients": ("Client", "AsyncClient", "Executor", "Progress", "actor", "ActorClass", "Actor"),
    "Futures": ("Future", "as_completed", "wait", "results"),
    "Tasks": ("task", "Task", "from_secret"),
    "Simulations": ("simulate",),
    "Pipelines": ("pipeline", "Pipeline", "Run", "on_exit", "status_of", "run_status", "run_name"),
}
#: Classes whose objects people make themselves.
_MADE_BY_HAND: Final = frozenset({"Client", "AsyncClient", "Executor", "Run"})
_OPTIONS: Final[dict[str, tuple[str, Any]]] = {
    "task": ("Options, also of `Task.options` and `Executor`:", TaskOptions),
    "Task": ("Options of `Task.step`:", StepOptions),
    "pipeline": ("Options:", PipelineOptions),
}


def render() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_sections(), *_errors()]).rstrip("\n") + "\n"


def shown() -> set[str]:
    """The names that have a place on the page."""
    return {name for members in _SECTIONS.values() for name in members} | set(_error_names())


def _sections() -> Iterator[str]:
    for title, members in _SECTIONS.items():
        yield f"## {title}\n"
        for name in members:
            yield from _one(name, getattr(rota, name))


def _one(name: str, value: Any) -> Iterator[str]:
    yield f"### rota.{name}\n"
    if not isinstance(value, type) or name in _MADE_BY_HAND:
        yield f"    rota.{name}({_parameters(value)})\n"
    yield f"{inspect.getdoc(value)}\n"
    if name in _OPTIONS:
        yield from _options(*_OPTIONS[name])
    if not isinstance(value, type):
        return
    if name in _MADE_BY_HAND and (opening := value.__dict__["__init__"].__doc__):
        yield f"{inspect.cleandoc(opening)}\n"
    rows = list(_members(value))
    if rows:
        yield "| | |\n| --- | --- |"
        yield from rows
        yield ""


def _members(owner: type) -> Iterator[str]:
    for name, value in owner.__dict__.items():
        if name.startswith("_") or name in {"progressed", "settle", "cancel_task", "release_task", "task_logs"}:
            continue
        said = " ".join((inspect.getdoc(value) or "").split())
        if isinstance(value, property):
            yield f"| `{name}` | {said} |"
        elif callable(value):
            yield f"| `{name}({_parameters(value)})` | {said} |"


def _parameters(function: Any) -> str:
    found = [one for name, one in inspect.signature(function).parameters.items() if name != "self"]
    stars: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return ", ".join(
        f"{stars.get(one.kind, '')}{one.name}" + ("" if one.default is inspect.Parameter.empty else f"={one.default!r}")
        for one in found
    )


def _options(title: str, wishes: Any) -> Iterator[str]:
    yield f"{title}\n"
    yield "| option | type | |\n| --- | --- | --- |"
    said = _comments(wishes)
    for name, kind in typing.get_type_hints(wishes).items():
        shown = str(kind).replace("<class '", "").replace("'>", "").replace("|", "\\|")
        for long in ("collections.abc.", "typing.", "rota.python.options."):
            shown = shown.replace(long, "")
        yield f"| `{name}` | `{shown}` | {said.get(name, '')} |"
    yield ""


def _comments(wishes: Any) -> dict[str, str]:
    """What stands above each option in the code."""
    lines = inspect.getsource(wishes).splitlines()
    found = {}
    for node in ast.parse(inspect.getsource(wishes)).body[0].body:  # type: ignore[attr-defined] # it is a class
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above = lines[node.lineno - 2].strip()
            found[node.target.id] = above.removeprefix("#: ") if above.startswith("#: ") else ""
    return found


def _error_names() -> list[str]:
    return [
        name for name in dir(rota) if isinstance(found := getattr(rota, name), type) and issubclass(found, Exception)
    ]


def _errors() -> Iterator[str]:
    yield "## Errors\n"
    yield "| | is a | |\n| --- | --- | --- |"
    for name in _error_names():
        kind = getattr(rota, name)
        parents = ", ".join(f"`{one.__name__}`" for one in kind.__bases__)
        yield f"| `rota.{name}` | {parents} | {' '.join((inspect.getdoc(kind) or '').split())} |"
