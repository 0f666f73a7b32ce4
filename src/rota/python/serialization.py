"""Serializes a call: the function and its arguments, pickled by cloudpickle, with a header for the task runner.

Code that is not installed is sent with the call: functions and classes of the main script, of notebooks, and of modules
beside them are pickled by value. Code of installed packages is pickled by reference; the worker must have it. What
cannot be pickled is refused here, by its name and with the line of the function.
"""

import ast
import base64
import contextlib
import functools
import hashlib
import inspect
import io
import json
import pickle
import sys
import sysconfig
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import cloudpickle

from rota.kit.errors import UserError
from rota.python import lease_child, lease_held, lease_runner, lease_server, lease_wire, task_runner
from rota.python.failures import NotPicklable

#: Linux limits one environment variable to 128 KiB, its name included.
PART: Final = 96 * 1024
_lock: Final = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A serialized call."""

    name: str
    content: bytes
    #: How each value is parsed that becomes known later, in order.
    values: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The checksum by which the task runner verifies the content."""
        return hashlib.sha256(self.content).hexdigest()

    def parts(self) -> list[str]:
        """The content as texts that fit into environment variables."""
        text = base64.b64encode(self.content).decode()
        return [text[at : at + PART] for at in range(0, len(text), PART)]

    def header(
        self,
        *,
        parts: int,
        file: str = "",
        results: str = "",
        outputs: Sequence[str] = ("result",),
        step: str = "",
        signed: Sequence[int] = (),
    ) -> str:
        """What the task runner reads first; `signed` are the numbers of the values that other steps have signed."""
        return json.dumps(
            {
                "name": self.name,
                "format": task_runner.FORMAT,
                "python": f"{sys.version_info.major}.{sys.version_info.minor}",
                "digest": self.digest,
                "parts": parts,
                "file": file,
                "results": results,
                "outputs": list(outputs),
                "values": list(self.values),
                "step": step,
                "signed": list(signed),
            }
        )


#: Recognizes promises: returns the number by which a pickle names one, or None for any other object.
Promised = Callable[[Any], int | None]


def pack(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    name: str,
    promised: Promised = lambda _: None,
) -> bytes:
    """Serialize a call; `NotPicklable` names what cannot be pickled."""
    call = (function, tuple(args), dict(kwargs), _source(function))
    with _local_code_by_value():
        try:
            pickled = _dumps(call, promised)
        except UserError:  # a promise that does not belong here
            raise
        except Exception as problem:
            raise _complaint(function, args, kwargs, name, promised, problem) from problem
    return zlib.compress(pickled, 1)


def _dumps(value: Any, promised: Promised, *, protocol: int = pickle.DEFAULT_PROTOCOL, **more: Any) -> bytes:
    class Pickler(cloudpickle.Pickler):  # type: ignore[misc] # it has no types
        def persistent_id(self, obj: Any) -> int | None:
            return promised(obj)

    into = io.BytesIO()
    Pickler(into, protocol=protocol, **more).dump(value)
    return into.getvalue()


def pack_function(function: Callable[..., Any], *, name: str) -> bytes:
    """Serialize a function by itself; `NotPicklable` names what cannot be pickled."""
    with _local_code_by_value():
        try:
            return _dumps((function, _source(function), name), lambda _: None)
        except Exception as problem:
            raise _complaint(function, (), {}, name, lambda _: None, problem) from problem


def pack_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, name: str, promised: Promised
) -> tuple[bytes, list[memoryview]]:
    """Serialize arguments; large buffers, as of arrays, are not copied."""
    if not kwargs and all(_is_simple(one) for one in args):
        return pickle.dumps((tuple(args), {}), 5), []
    try:
        return pack_value((tuple(args), dict(kwargs)), promised)
    except UserError:
        raise
    except Exception as problem:
        with _local_code_by_value():
            raise _complaint(function, args, kwargs, name, promised, problem) from problem


def pack_value(value: Any, promised: Promised = lambda _: None) -> tuple[bytes, list[memoryview]]:
    """Serialize a value; large buffers, as of arrays, are not copied."""
    buffers: list[pickle.PickleBuffer] = []
    with _local_code_by_value():
        text = _dumps(value, promised, protocol=5, buffer_callback=buffers.append)
        try:
            if len(buffers) <= lease_wire.MOST_BUFFERS:
                return text, [one.raw() for one in buffers]
        except BufferError:  # one that is not contiguous
            pass
        return _dumps(value, promised, protocol=5), []


_SIMPLE: Final = frozenset({int, float, str, bytes, bool, type(None)})


def _is_simple(value: Any, depth: int = 2) -> bool:
    """Whether Python's own pickle serializes a value as well, and faster."""
    kind = type(value)
    if kind in _SIMPLE:
        return True
    if depth and (kind is tuple or kind is list) and len(value) < 100:
        return all(_is_simple(one, depth - 1) for one in value)
    return False


def _complaint(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    name: str,
    promised: Promised,
    problem: Exception,
) -> NotPicklable:
    """Which part of a call cannot be pickled, and where the function is defined."""
    place = where(function)
    parts = [*((_parameter(function, number), one) for number, one in enumerate(args)), *kwargs.items()]
    for parameter, value in parts:
        try:
            _dumps(value, promised)
        except Exception as found:  # noqa: BLE001 - pickling runs what it likes
            what = f"the argument {parameter} of {name} ({place}), a {_kind(value)}, cannot be sent"
            return NotPicklable(f"{what}: {_reason(found)}", "pass what it is made from, and make it in the function")
    held = _culprit(function, promised)
    if held:
        what = f"{name} ({place}) uses {held[0]}, a {_kind(held[1])}, which cannot be sent"
        return NotPicklable(f"{what}: {_reason(problem)}", "make it in the function")
    return NotPicklable(f"{name} ({place}) cannot be sent: {_reason(problem)}")


def _culprit(function: Callable[..., Any], promised: Promised) -> tuple[str, Any] | None:
    """The closure or global variable of a function that cannot be pickled."""
    try:
        used = inspect.getclosurevars(inspect.unwrap(function))
    except (TypeError, ValueError):
        return None
    for name, value in {**used.globals, **used.nonlocals}.items():
        try:
            _dumps(value, promised)
        except Exception:  # noqa: BLE001 - pickling runs what it likes
            return name, value
    return None


def _parameter(function: Callable[..., Any], number: int) -> str:
    with contextlib.suppress(TypeError, ValueError, IndexError):
        return list(inspect.signature(function).parameters)[number]
    return f"number {number + 1}"


def _kind(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _reason(problem: Exception) -> str:
    return " ".join(str(problem).split())[:300] or type(problem).__name__


def name_of(function: Callable[..., Any]) -> str:
    """The displayed name of a function or other callable."""
    return str(getattr(function, "__qualname__", "") or type(function).__qualname__)


def where(function: Callable[..., Any]) -> str:
    """The file and line of a function, for messages."""
    with contextlib.suppress(TypeError, AttributeError):
        code = inspect.unwrap(function).__code__
        return f"{code.co_filename}:{code.co_firstlineno}"
    return getattr(function, "__module__", None) or "built in"


def _source(function: Callable[..., Any]) -> tuple[str, int, str] | None:
    """File, line and source of a function, for tracebacks on machines that lack the file."""
    with contextlib.suppress(OSError, TypeError, AttributeError):
        code = inspect.unwrap(function).__code__
        return _source_of_code(code, code.co_filename)
    return None


@functools.lru_cache(maxsize=256)
def _source_of_code(code: CodeType, file: str) -> tuple[str, int, str] | None:
    with contextlib.suppress(OSError, TypeError):
        lines, first = inspect.getsourcelines(code)
        return inspect.getsourcefile(code) or file, first, "".join(lines)
    return None


# --- code that is pickled by value ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _local_code_by_value() -> Iterator[None]:
    """Inside this context, code that is not installed is pickled by value."""
    with _lock:
        known = cloudpickle.list_registry_pickle_by_value()
        local = [one for one in _local_modules() if one.__name__ not in known]
        for module in local:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in local:
                cloudpickle.unregister_pickle_by_value(module)


def _local_modules() -> list[ModuleType]:
    """The loaded modules that are not installed; looked up again when modules were loaded or removed."""
    seen = len(sys.modules), next(reversed(sys.modules))
    if _found.seen != seen:
        _found.modules = [one for name, one in list(sys.modules.items()) if _is_local(name, one)]
        _found.seen = seen
    return _found.modules


class _Found:
    """The latest search for local modules: number and last of the modules then, and what it found."""

    def __init__(self) -> None:
        self.seen: tuple[int, str] = (0, "")
        self.modules: list[ModuleType] = []


_found: Final = _Found()


def _is_local(name: str, module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    if not isinstance(module, ModuleType) or not isinstance(file, str) or module.__name__ != name:
        return False
    return name.partition(".")[0] != "rota" and _is_beside(file)


@functools.cache
def _is_beside(file: str) -> bool:
    """Whether a file belongs to no installation."""
    path = Path(file).absolute()
    return not any(path.is_relative_to(folder) for folder in _installed())


@functools.cache
def _installed() -> frozenset[Path]:
    places = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    others = {one for one in sys.path if Path(one).name in {"site-packages", "dist-packages"}}
    return frozenset(Path(one).absolute() for one in {*places, *others, sys.base_prefix + "/lib"})


# --- the task runner --------------------------------------------------------------------------------------------------


@functools.cache
def bootstrap_text() -> str:
    """The task runner's source for an environment variable, without docstrings and comments."""
    return base64.b64encode(zlib.compress(_bare(task_runner).encode(), 9)).decode()


@functools.cache
def lease_text() -> str:
    """The source of a leased worker, for a Python without Rota. It runs `serve(GIVEN)`; its modules need no package."""
    lines = ["import sys, types", "sys.modules['_rota_task_runner'] = sys.modules['__main__']"]
    for module in (lease_wire, lease_held, lease_child, lease_server, lease_runner):
        name = f"_rota_{module.__name__.rpartition('.')[2]}"
        lines += [f"m = sys.modules[{name!r}] = types.ModuleType({name!r})", f"exec({_bare(module)!r}, m.__dict__)"]
    return "\n".join([*lines, "m.serve(GIVEN)"])


def _bare(module: ModuleType) -> str:
    """The source of a module without docstrings, whose imports from Rota are those of `lease_text`."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.Module):
            node.body = [line for one in node.body for line in _alone(one)]
    return ast.unparse(tree)


def _alone(line: ast.stmt) -> list[ast.stmt]:
    if not isinstance(line, ast.ImportFrom) or not (line.module or "").startswith("rota.python"):
        return [line]
    if line.module == "rota.python":
        return [ast.Import([ast.alias(f"_rota_{one.name}", one.name)]) for one in line.names]
    return [ast.ImportFrom(f"_rota_{str(line.module).rpartition('.')[2]}", line.names, 0)]
