"""The far side of a task: reads a function and its arguments, calls it, and leaves what came of it.

It runs in whatever Python the task asked for; where that is not the worker's own, its source travels with the task. So
it needs nothing but the standard library, and cloudpickle where what it reads was written by that; an older Python gets
as far as to say so. What it is given stands in variables, all of which are gone before the function is called:

    ROTA_TASK       what is where, as JSON: see `rota.python.serialization`
    ROTA_TASK_n     the pickled function and its arguments, in parts
    ROTA_TASK_KEY   signs what goes back; whoever unpickles that knows by it who wrote it
    ROTA_VALUE_n    values that became known after the task was written: of other steps, items, parameters
    ROTA_OUTPUTS    the file that outlives the task, of at most 4096 bytes

A value is written as JSON where that says it exactly, else as `pickle:...`; where it is too large for the file, it goes
into a folder, and `file:DIGEST:PATH` stands for it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import math
import os
import pickle
import sys
import zlib

# This starts with every task, and each import is paid for each time: what is not always needed is imported where it is,
# and `typing` and `pathlib` not at all.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from typing import Any

#: How all of this is written; a worker with another Rota may read it otherwise.
FORMAT = 1
#: As many bytes of its outputs as a pod's status keeps.
MOST_BYTES = 4096
#: The exit code of what cannot succeed however often it is tried: a wrong Python, a missing module.
HOPELESS = 78
#: That of a function whose value cannot be sent, which would be so again.
UNSENDABLE = 79
_PICKLE, _FILE = "pickle:", "file:"
#: Stands for the number of the user in the name of a folder.
_OWN = "{uid}"
_PLAIN = (str, int, bool, type(None))
#: What JSON, a signature and a message need around a value; and how deep a value is looked into.
_AROUND = 300
_DEEPEST = 20
#: How long results lie in a folder before others of their kind clear them away.
_KEPT_S = 24 * 3600.0


class Problem(Exception):
    """The task cannot be done here, in one line."""


class Missing(Exception):
    """What a value stands for is not there, or is not what was written."""


# --- values as text ---------------------------------------------------------------------------------------------------


def is_plain(value: Any, depth: int = _DEEPEST) -> bool:
    """Whether JSON says a value exactly: types as they are, no keys but texts, no numbers that JSON lacks."""
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind is float:
        return math.isfinite(value)
    if depth and kind is list:
        return all(is_plain(one, depth - 1) for one in value)
    if depth and kind is dict:
        return all(type(name) is str and is_plain(one, depth - 1) for name, one in value.items())
    return False


def write(value: Any) -> str:
    """A value as text."""
    if is_plain(value):
        return json.dumps(value, separators=(",", ":"))
    try:
        from cloudpickle import dumps  # noqa: PLC0415 - what is sent back is mostly plain, and needs none
    except ImportError:
        from pickle import dumps  # noqa: PLC0415
    return _PICKLE + base64.b64encode(zlib.compress(dumps(value), 1)).decode()


def read(text: str, load: Callable[[bytes], Any] = pickle.loads) -> Any:
    """The value that a text stands for; runs what the pickle says, so only of texts from those who are trusted."""
    place = place_of(text)
    if place is not None:
        text = content(*place).decode()
    if text.startswith(_PICKLE):
        return load(zlib.decompress(base64.b64decode(text[len(_PICKLE) :])))
    return json.loads(text)


def place_of(text: str) -> tuple[str, str] | None:
    """The file that a text stands for, and its digest; None if the value is in the text."""
    if not text.startswith(_FILE):
        return None
    digest, _, path = text[len(_FILE) :].partition(":")
    return path, digest


def content(path: str, digest: str) -> bytes:
    """What is in a file; `Missing` if that is not what was written."""
    try:
        with open(path, "rb") as file:
            found = file.read()
    except OSError as problem:
        raise Missing(f"{path}: {problem.strerror}") from None
    if hashlib.sha256(found).hexdigest() != digest:
        raise Missing(f"{path} is not what was written: its digest is another")
    return found


def put_away(written: bytes, folder: str, name: str) -> tuple[str, str]:
    """Write a file into a folder, for its user alone; its path and its digest."""
    digest = hashlib.sha256(written).hexdigest()
    os.makedirs(folder, mode=0o755, exist_ok=True)
    path = os.path.join(folder, f"{name}-{digest[:12]}")
    aside = f"{path}.{os.getpid()}"
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(written)
    os.replace(aside, path)
    return path, digest


def sign(key: str, name: str, text: str) -> str:
    """What proves that whoever wrote a text has the key of its task."""
    return hmac.new(key.encode(), f"{name}\0{text}".encode(), "sha256").hexdigest()


# --- what is given ----------------------------------------------------------------------------------------------------


class _Given:
    """The variables of a task."""

    def __init__(self, variables: MutableMapping[str, str]) -> None:
        self.task: dict[str, Any] = json.loads(variables.pop("ROTA_TASK"))
        self.key = variables.pop("ROTA_TASK_KEY", "")
        self.outputs = variables.pop("ROTA_OUTPUTS", "")
        self._parts = [variables.pop(f"ROTA_TASK_{number}", "") for number in range(self.task["parts"])]
        self._values = [variables.pop(f"ROTA_VALUE_{number}", "") for number in range(len(self.task["values"]))]
        self._known: dict[int, Any] = {}

    def call(self) -> Any:
        """The function, its arguments, and where its source was."""
        task = self.task
        if task.get("file"):
            try:
                packed = content(task["file"], task["digest"])
            except Missing as problem:
                raise Problem(
                    f"the arguments are not here: {problem}; is the workspace on this machine, too?"
                ) from None
        else:
            packed = base64.b64decode("".join(self._parts))
            if hashlib.sha256(packed).hexdigest() != task["digest"]:
                raise Problem("the task did not arrive as it was sent: its digest is another")
        return self._load(zlib.decompress(packed))

    def _load(self, pickled: bytes) -> Any:
        given = self

        class Reader(pickle.Unpickler):
            def persistent_load(self, pid: Any) -> Any:
                return given._value(pid)

        return Reader(io.BytesIO(pickled)).load()

    def _value(self, number: int) -> Any:
        """What was promised when the task was written."""
        if number not in self._known:
            self._known[number] = _converted(self._values[number], self.task["values"][number], self._load)
        return self._known[number]


def _converted(given: str, kind: str, load: Callable[[bytes], Any]) -> Any:
    text = given[1:]  # one sign stands before it, so that it is a text whatever it holds
    if kind == "value":
        return read(text, load)
    if kind == "values":
        return [read(one, load) for one in json.loads(text)]
    if kind == "text":
        return text
    if kind == "bool":
        return text.strip().lower() in {"true", "1", "yes", "on"}
    readers: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "json": json.loads}
    try:
        return readers[kind](text)
    except ValueError:
        raise Problem(f"{text!r} is no {kind}") from None


def _check_version(task: dict[str, Any]) -> None:
    if task.get("format") != FORMAT:
        raise Problem("the Rota of this worker is of another version than that of whoever wrote the task")
    here, there = f"{sys.version_info[0]}.{sys.version_info[1]}", task["python"]
    if here != there:
        raise Problem(
            f"the task was written by Python {there} and would be run by Python {here} ({sys.executable}); "
            "name an environment with python=..."
        )


# --- what is left -----------------------------------------------------------------------------------------------------


class _Left:
    """What goes back."""

    def __init__(self, given: _Given) -> None:
        self._given = given
        self._name: str = given.task["name"]
        #: Whether the one who reads it is the one who wrote the function; else it is a pipeline, and people do.
        self._signed = bool(given.key)

    def result(self, value: Any) -> None:
        items = self._items(value) if "items" in self._given.task["outputs"] else None
        outputs = {"result": self._fit(write(value), "result", spare=len(json.dumps(items)))}
        if items is not None:
            outputs["items"] = items
        self._leave(outputs)

    def _items(self, value: Any) -> str:
        """Each part of a value by itself, for a step that runs once for each."""
        items = json.dumps([write(one) for one in value], separators=(",", ":"))
        if len(json.dumps(items)) > MOST_BYTES // 2:
            raise Problem(f"what {self._name} has returned is too much to run a step for each: {len(items)} bytes")
        return items

    def error(self, problem: Exception, written: str) -> None:
        if not self._signed:
            self._leave_text(_brief(problem))
            return
        record = {"type": type(problem).__name__, "message": str(problem)[:2000], "traceback": written[-20_000:]}
        record.update(_exception(problem))
        try:
            text = self._fit(json.dumps(record), "error")
        except (Problem, OSError):
            text = self._cut(record)
        self._leave({"error": text, "message": _brief(problem)[:200]})

    def _cut(self, record: dict[str, str]) -> str:
        """As much of an error as fits where there is no folder for more."""
        record.pop("exception", None)
        record.pop("exception_state", None)
        most = 2000
        while len(json.dumps(json.dumps(record))) > MOST_BYTES - 2 * _AROUND:
            record.update(message=record["message"][: most // 4], traceback=record["traceback"][-most:])
            most = most * 2 // 3
        return json.dumps(record)

    def problem(self, text: str) -> None:
        """Say in one line why nothing was done."""
        sys.stderr.write(f"rota: {text}\n")
        if self._signed:
            self._leave({"problem": text[:500]})
        else:
            self._leave_text(text[:1000])

    def _fit(self, text: str, name: str, *, spare: int = 0) -> str:
        size = len(json.dumps(text)) + _AROUND + spare
        if size <= MOST_BYTES:
            return text
        folder = self._given.task.get("results")
        if not folder:
            raise Problem(
                f"what {self._name} has returned takes {size} bytes, and a step may pass on {MOST_BYTES}: "
                "give the pipeline workspace=True, or return the path of a file"
            )
        if _OWN in folder:
            folder = own_folder(folder)
        # by the pod's name, under which whoever releases the task finds it again
        path, digest = put_away(text.encode(), folder, f"{os.environ.get('HOSTNAME', 'task')}-{name}")
        return f"{_FILE}{digest}:{path}"

    def _leave(self, outputs: dict[str, str]) -> None:
        for name in ("result", "error", "problem"):
            if self._signed and name in outputs:
                outputs["mac"] = sign(self._given.key, name, outputs[name])
        self._leave_text(json.dumps(outputs, separators=(",", ":")))

    def _leave_text(self, text: str) -> None:
        if self._given.outputs:
            with open(self._given.outputs, "w", encoding="utf-8") as file:
                file.write(text)


def _exception(problem: Exception) -> dict[str, str]:
    """An exception as text: pickled where that gives it back as it was, else by its state; empty if neither can be.

    Pickle calls the class with `args`, which are what the constructor handed on and need not be what it takes.
    """
    try:
        text = write(problem)
        back = read(text)
        if type(back).__name__ == type(problem).__name__ and repr(back.args) == repr(problem.args):
            return {"exception": text}
    except Exception:  # noqa: BLE001, S110 - whatever its pickling does, there is another way
        pass
    try:
        state = {}
        for name, value in vars(problem).items():
            try:
                write(value)
                state[name] = value
            except Exception:  # noqa: BLE001, S112 - what cannot be sent of it stays here
                continue
        # of an OSError this holds the file's name as well, which is none of its `args`
        args = _built_in(type(problem)).__reduce__(problem)[1]
        text = write((type(problem), args, problem.args, state))
        rebuilt(read(text))
    except Exception:  # noqa: BLE001 - its type and its message are sent all the same
        return {}
    return {"exception_state": text}


def _built_in(kind: Any) -> Any:
    """The nearest class of Python's own that a class of exceptions comes from."""
    return next(one for one in kind.__mro__ if one.__module__ == "builtins")


def rebuilt(state: tuple[Any, tuple[Any, ...], tuple[Any, ...], dict[str, Any]]) -> BaseException:
    """An exception from its class and its state, without a call of the class' own constructor."""
    kind, constructed_from, args, attributes = state
    made: BaseException = kind.__new__(kind, *constructed_from)
    # what Python's own classes keep beside `args`, as `errno` of an OSError, is set by their constructor
    _built_in(kind).__init__(made, *constructed_from)
    made.args = args
    made.__dict__.update(attributes)
    return made


def own_path(pattern: str) -> str:
    """The path of a folder of which each user has one."""
    return pattern.replace(_OWN, str(os.getuid()))


def own_folder(pattern: str) -> str:
    """The folder for results of this user, from which those are removed that nobody has come for in a day."""
    import time  # noqa: PLC0415 - see above

    folder = own_path(pattern)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.path.islink(folder) or os.lstat(folder).st_uid != os.getuid():
        raise Problem(f"{folder} belongs to somebody else; remove it, or name a workspace")
    now = time.time()  # noqa: TID251 - this source travels by itself
    for entry in os.scandir(folder):
        try:
            if now - entry.stat(follow_symlinks=False).st_mtime > _KEPT_S:
                os.unlink(entry.path)
        except OSError:  # somebody else was quicker
            continue
    return folder


def _brief(problem: Exception) -> str:
    """An error in one line, with the place that raised it."""
    import traceback  # noqa: PLC0415 - see above

    frames = traceback.extract_tb(problem.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    said = "".join(traceback.format_exception_only(type(problem), problem)).strip().splitlines()
    return (said[0] if said else type(problem).__name__)[:300] + place


def _remember(source: tuple[str, int, str] | None) -> None:
    """Have tracebacks show the lines of a function whose file is not on this machine."""
    if source is None or os.path.exists(source[0]):
        return
    import linecache  # noqa: PLC0415 - see above

    path, first, text = source
    linecache.cache.setdefault(path, (len(text), None, ["\n"] * (first - 1) + text.splitlines(True), path))


def _written(problem: Exception) -> str:
    """A traceback as Python prints it."""
    import traceback  # noqa: PLC0415 - see above

    return "".join(traceback.format_exception(type(problem), problem, problem.__traceback__))


def _read_call(given: _Given) -> Any:
    """The function and its arguments; `Problem` in one line if that cannot be had."""
    name = given.task["name"]
    try:
        _check_version(given.task)
        return given.call()
    except Problem:
        raise
    except Missing as problem:
        raise Problem(f"a value that {name} needs is not here: {problem}") from None
    except ModuleNotFoundError as problem:
        raise Problem(
            f"{sys.executable} has no module {problem.name}, which {name} needs; install it there, "
            "or name another environment with python=..."
        ) from None
    except Exception as problem:  # noqa: BLE001 - unpickling runs what it likes
        sys.stderr.write(_written(problem))
        raise Problem(f"{name} could not be read here: {type(problem).__name__}: {problem}") from None


def main() -> int:
    """Do the task that the variables hold; the exit code."""
    given = _Given(os.environ)
    left = _Left(given)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    try:
        function, args, kwargs, source = _read_call(given)
        _remember(source)
        try:
            value = function(*args, **kwargs)
        except SystemExit as problem:
            # said by the task itself, so that a result that was lost is not taken for this
            left.problem(f"its function called sys.exit({problem.code!r}) and so returned nothing")
            raise
        except Exception as problem:  # noqa: BLE001 - it is the function's own, and its caller's to handle
            # the frames of this file say nothing to whoever wrote the function
            problem.__traceback__ = problem.__traceback__ and problem.__traceback__.tb_next
            written = _written(problem)
            sys.stderr.write(written)
            left.error(problem, written)
            return 1
    except Problem as problem:
        left.problem(str(problem))
        return HOPELESS
    try:
        left.result(value)
    except Problem as problem:
        left.problem(str(problem))
        return UNSENDABLE
    except Exception as problem:  # noqa: BLE001 - pickling runs what it likes
        sys.stderr.write(_written(problem))
        left.problem(f"what {given.task['name']} has returned cannot be sent: {type(problem).__name__}: {problem}")
        return UNSENDABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
