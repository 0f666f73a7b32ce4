"""The program inside a task: reads a function and its arguments, calls it, and writes the result.

It runs in the Python that the task asked for; if that is not the worker's own, its source is sent with the task. So it
needs only the standard library, and cloudpickle if the call was pickled by it; an older Python gets far enough to
report that. Its input is in environment variables, which are removed before the function is called:

    ROTA_TASK       the header, as JSON: see `rota.python.serialization`
    ROTA_TASK_n     the pickled function and its arguments, in parts
    ROTA_TASK_KEY   signs the result, so that the reader can authenticate it before unpickling
    ROTA_VALUE_n    values that became known after the task was created: of other steps, items, parameters
    ROTA_PROOF_n    the step and the signature of a value that is an output of another step
    ROTA_SCOPE      the uid of the pipeline's run, which signatures include; `-` for outputs that other runs may reuse
    ROTA_ITEM       the number of the item, in a step that runs once for each
    ROTA_OUTPUTS    the file that outlives the task, of at most 4096 bytes

A value is written as JSON if that is exact, else as `pickle:...`; if it is too large for the file, it is written to a
folder, and `file:DIGEST:PATH` refers to it.
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

# This runs with every task, and imports cost time: modules that are not always needed are imported where they are used,
# and `typing` and `pathlib` not at all.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from typing import Any

#: The version of this format; a worker with another version of Rota may read another one.
FORMAT = 2
#: The bytes of outputs that a pod's status keeps.
MOST_BYTES = 4096
#: The exit code for errors that no retry fixes: a wrong Python, a missing module.
HOPELESS = 78
#: The exit code if the function's result cannot be serialized, which no retry fixes either.
UNSENDABLE = 79
_PICKLE, _FILE = "pickle:", "file:"
#: The scope of outputs that later runs may reuse.
ANY_RUN = "-"
#: Stands for the numeric user id in the name of a folder.
_OWN = "{uid}"
_PLAIN = (str, int, bool, type(None))
#: Bytes for JSON, signature and message around a value; and the depth to which a value is examined.
_AROUND = 300
_DEEPEST = 20
#: How long results stay in a folder before later tasks delete them.
_KEPT_S = 24 * 3600.0


class Problem(Exception):
    """The task cannot run here; the message is one line."""


class Missing(Exception):
    """A referenced value is missing or was changed."""


# --- values as text ---------------------------------------------------------------------------------------------------


def is_plain(value: Any, depth: int = _DEEPEST) -> bool:
    """Whether JSON represents a value exactly: exact types, string keys only, finite numbers only."""
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
    """The value of a text; unpickles, which runs code, so only for texts from trusted sources."""
    place = place_of(text)
    if place is not None:
        text = content(*place).decode()
    if text.startswith(_PICKLE):
        return load(zlib.decompress(base64.b64decode(text[len(_PICKLE) :])))
    return json.loads(text)


def place_of(text: str) -> tuple[str, str] | None:
    """The file and digest that a text refers to; None if the value is in the text."""
    if not text.startswith(_FILE):
        return None
    digest, _, path = text[len(_FILE) :].partition(":")
    return path, digest


def content(path: str, digest: str) -> bytes:
    """The content of a file; `Missing` if its digest differs."""
    try:
        with open(path, "rb") as file:
            found = file.read()
    except OSError as problem:
        raise Missing(f"{path}: {problem.strerror}") from None
    if hashlib.sha256(found).hexdigest() != digest:
        raise Missing(f"{path} is not what was written: its digest is another")
    return found


def put_away(written: bytes, folder: str, name: str) -> tuple[str, str]:
    """Write a file into a folder, readable by its user only; its path and digest."""
    digest = hashlib.sha256(written).hexdigest()
    os.makedirs(folder, mode=0o755, exist_ok=True)
    path = os.path.join(folder, f"{name}-{digest[:12]}")
    aside = f"{path}.{os.getpid()}"
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(written)
    os.replace(aside, path)
    return path, digest


def sign(key: str, name: str, text: str) -> str:
    """The signature of a text with the key of its task."""
    return hmac.new(key.encode(), f"{name}\0{text}".encode(), "sha256").hexdigest()


def sign_output(key: str, source: tuple[str, str, str], index: str, text: str) -> str:
    """The signature of a step's output: its item, and a MAC of 128 bits, since a list of outputs has one for each.

    `source` is the scope, the step and the name of the output. So an output is not accepted as that of another run,
    step or item. An output that other runs may reuse may have been that of another item.
    """
    if source[0] == ANY_RUN:
        index = ""
    said = "\0".join((*source, index, text)).encode()
    mac = hmac.new(key.encode(), said, "sha256").digest()[:16]
    return f"{index}:{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def is_output(key: str, source: tuple[str, str, str], signature: str, text: str) -> bool:
    """Whether a step wrote this output."""
    expected = sign_output(key, source, signature.partition(":")[0], text)
    return hmac.compare_digest(expected.encode(), signature.encode())


# --- input ------------------------------------------------------------------------------------------------------------


class _Given:
    """The environment variables of a task."""

    def __init__(self, variables: MutableMapping[str, str]) -> None:
        self.task: dict[str, Any] = json.loads(variables.pop("ROTA_TASK"))
        self.key = variables.pop("ROTA_TASK_KEY", "")
        self.outputs = variables.pop("ROTA_OUTPUTS", "")
        self._parts = [variables.pop(f"ROTA_TASK_{number}", "") for number in range(self.task["parts"])]
        self.scope = variables.pop("ROTA_SCOPE", "")
        self.index = variables.pop("ROTA_ITEM", "")
        self._values = [variables.pop(f"ROTA_VALUE_{number}", "") for number in range(len(self.task["values"]))]
        self._proofs = [variables.pop(f"ROTA_PROOF_{number}", "") for number in range(len(self.task["values"]))]
        self._known: dict[int, Any] = {}

    def call(self) -> Any:
        """The function, its arguments, and the location of its source."""
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
        """The value of a promise."""
        if number not in self._known:
            kind = self.task["values"][number]
            if number in self.task["signed"]:
                self._verify(self._values[number][1:], self._proofs[number], kind)
            self._known[number] = _converted(self._values[number], kind, self._load)
        return self._known[number]

    def _verify(self, text: str, proof: str, kind: str) -> None:
        """`Problem` unless the step wrote the value.

        A proof is `STEP OUTPUT SCOPE SIGNATURE`. Only the signature, which comes last, is taken from an output; what
        precedes it is from the pipeline. Without a step the value itself is from the pipeline, too.
        """
        step, output, scope, signature = proof.split(" ", 3)
        if not step:
            return
        try:
            well = self._is_authentic((scope, step, output), signature, text, kind)
        except (ValueError, IndexError, AttributeError):  # not what a step writes
            well = False
        if not well:
            raise Problem(
                f"the output {output} of step {step} was not written by that step of this run: its signature is wrong; "
                "retry the run, and check which users may change step runs and the status of pods in this namespace"
            )

    def _is_authentic(self, source: tuple[str, str, str], signature: str, text: str, kind: str) -> bool:
        if source[2] == "items":  # one of a list, which was signed as a whole
            signature, _, listed = signature.partition(" ")
            return is_output(self.key, source, signature, listed) and json.loads(listed)[int(self.index)] == text
        if kind != "values":
            return is_output(self.key, source, signature, text)
        texts, signatures = json.loads(text), json.loads(signature)
        order = [int(one.partition(":")[0] or 0) for one in signatures]
        in_order = source[0] == ANY_RUN or order == sorted(set(order))
        pairs = zip(signatures, texts)  # noqa: B905 - an older Python has no `strict`
        same = len(texts) == len(signatures)
        return same and in_order and all(is_output(self.key, source, *pair) for pair in pairs)


def _converted(given: str, kind: str, load: Callable[[bytes], Any]) -> Any:
    text = given[1:]  # one character precedes it, so that it is a string whatever it contains
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
        raise Problem("this worker has another version of Rota than the client that submitted the task")
    here, there = f"{sys.version_info[0]}.{sys.version_info[1]}", task["python"]
    if here != there:
        raise Problem(
            f"the task was written by Python {there} and would be run by Python {here} ({sys.executable}); "
            "name an environment with python=..."
        )


# --- output -----------------------------------------------------------------------------------------------------------


class _Left:
    """The output of a task."""

    def __init__(self, given: _Given) -> None:
        self._given = given
        self._name: str = given.task["name"]
        #: The step of a pipeline, whose errors users read; empty if the client that submitted the function reads them.
        self._step: str = given.task.get("step") or ""

    def result(self, value: Any) -> None:
        items = self._items(value) if "items" in self._given.task["outputs"] else None
        outputs = {"result": self._fit(write(value), "result", spare=len(json.dumps(items)))}
        if items is not None:
            outputs["items"] = items
        if self._step:
            outputs["signature"] = self._signature("result", outputs["result"])
            if items is not None:
                outputs["items-signature"] = self._signature("items", items)
        self._leave(outputs)

    def _signature(self, output: str, text: str) -> str:
        given = self._given
        return sign_output(given.key, (given.scope, self._step, output), given.index, text)

    def _items(self, value: Any) -> str:
        """Each item of a value by itself, for a step that runs once for each."""
        items = json.dumps([write(one) for one in value], separators=(",", ":"))
        if len(json.dumps(items)) > MOST_BYTES // 2:
            raise Problem(f"what {self._name} has returned is too much to run a step for each: {len(items)} bytes")
        return items

    def error(self, problem: Exception, written: str) -> None:
        if self._step:
            self._leave_text(_brief(problem))
            return
        record = error_record(problem, written)
        try:
            text = self._fit(json.dumps(record), "error")
        except (Problem, OSError):
            text = self._cut(record)
        self._leave({"error": text, "message": _brief(problem)[:200]})

    def _cut(self, record: dict[str, str]) -> str:
        """An error truncated to what fits without a folder."""
        record.pop("exception", None)
        record.pop("exception_state", None)
        most = 2000
        while len(json.dumps(json.dumps(record))) > MOST_BYTES - 2 * _AROUND:
            record.update(message=record["message"][: most // 4], traceback=record["traceback"][-most:])
            most = most * 2 // 3
        return json.dumps(record)

    def problem(self, text: str) -> None:
        """Report in one line why the task did not run."""
        sys.stderr.write(f"rota: {text}\n")
        if self._step:
            self._leave_text(text[:1000])
        else:
            self._leave({"problem": text[:500]})

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
        # named after the pod, so that the client finds it when it releases the task
        path, digest = put_away(text.encode(), folder, f"{os.environ.get('HOSTNAME', 'task')}-{name}")
        return f"{_FILE}{digest}:{path}"

    def _leave(self, outputs: dict[str, str]) -> None:
        for name in ("result", "error", "problem"):
            if not self._step and name in outputs:
                outputs["mac"] = sign(self._given.key, name, outputs[name])
        self._leave_text(json.dumps(outputs, separators=(",", ":")))

    def _leave_text(self, text: str) -> None:
        if self._given.outputs:
            with open(self._given.outputs, "w", encoding="utf-8") as file:
                file.write(text)


def error_record(problem: Exception, written: str = "") -> dict[str, str]:
    """What a client needs to raise an exception again: type, message, traceback and the exception itself."""
    written = written or _written(problem)
    record = {"type": type(problem).__name__, "message": str(problem)[:2000], "traceback": written[-20_000:]}
    return {**record, **_exception(problem)}


def _exception(problem: Exception) -> dict[str, str]:
    """An exception as text: pickled if that restores it, else by its state; empty if neither works.

    Pickle calls the class with `args`, which are what the constructor passed on and need not be what it takes.
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
        # of an OSError this contains the file's name as well, which is not in `args`
        args = _built_in(type(problem)).__reduce__(problem)[1]
        text = write((type(problem), args, problem.args, state))
        rebuilt(read(text))
    except Exception:  # noqa: BLE001 - its type and its message are sent all the same
        return {}
    return {"exception_state": text}


def _built_in(kind: Any) -> Any:
    """The nearest built-in base class of an exception class."""
    return next(one for one in kind.__mro__ if one.__module__ == "builtins")


def rebuilt(state: tuple[Any, tuple[Any, ...], tuple[Any, ...], dict[str, Any]]) -> BaseException:
    """An exception from its class and state, without a call of the class's own constructor."""
    kind, constructed_from, args, attributes = state
    made: BaseException = kind.__new__(kind, *constructed_from)
    # attributes of built-in classes beside `args`, such as `errno` of an OSError, are set by their constructor
    _built_in(kind).__init__(made, *constructed_from)
    made.args = args
    made.__dict__.update(attributes)
    return made


def own_path(pattern: str) -> str:
    """The path of a folder that each user has separately."""
    return pattern.replace(_OWN, str(os.getuid()))


def own_folder(pattern: str) -> str:
    """The results folder of this user, without files older than a day."""
    import time  # noqa: PLC0415 - see above

    folder = own_path(pattern)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.path.islink(folder) or os.lstat(folder).st_uid != os.getuid():
        raise Problem(f"{folder} belongs to another user; remove it, or name a workspace")
    now = time.time()  # noqa: TID251 - this source travels by itself
    for entry in os.scandir(folder):
        try:
            if now - entry.stat(follow_symlinks=False).st_mtime > _KEPT_S:
                os.unlink(entry.path)
        except OSError:  # another process deleted it first
            continue
    return folder


def _brief(problem: Exception) -> str:
    """An error in one line, with the line that raised it."""
    import traceback  # noqa: PLC0415 - see above

    frames = traceback.extract_tb(problem.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    said = "".join(traceback.format_exception_only(type(problem), problem)).strip().splitlines()
    return (said[0] if said else type(problem).__name__)[:300] + place


def remember(source: tuple[str, int, str] | None) -> None:
    """Make the source of a function available to tracebacks, if its file is not on this machine."""
    if source is None or os.path.exists(source[0]):
        return
    import linecache  # noqa: PLC0415 - see above

    path, first, text = source
    linecache.cache.setdefault(path, (len(text), None, ["\n"] * (first - 1) + text.splitlines(True), path))


def _written(problem: Exception) -> str:
    """A traceback as Python prints it."""
    import traceback  # noqa: PLC0415 - see above

    return "".join(traceback.format_exception(type(problem), problem, problem.__traceback__))


class reading:  # noqa: N801 - used as a function
    """A context in which code of the user is unpickled: what goes wrong becomes a `Problem`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, problem: BaseException | None, traceback: object) -> None:
        name = self._name
        if problem is None or isinstance(problem, Problem) or not isinstance(problem, Exception):
            return
        if isinstance(problem, Missing):
            raise Problem(f"a value that {name} needs is not here: {problem}") from None
        if isinstance(problem, ModuleNotFoundError):
            raise Problem(
                f"{sys.executable} has no module {problem.name}, which {name} needs; install it there, "
                "or name another environment with python=..."
            ) from None
        sys.stderr.write(_written(problem))
        raise Problem(f"{name} could not be read here: {type(problem).__name__}: {problem}") from None


def _read_call(given: _Given) -> Any:
    """The function and its arguments; `Problem` if they cannot be read."""
    with reading(given.task["name"]):
        _check_version(given.task)
        return given.call()


def main() -> int:
    """Run the task in the environment variables; returns the exit code."""
    given = _Given(os.environ)
    left = _Left(given)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    try:
        function, args, kwargs, source = _read_call(given)
        remember(source)
        try:
            value = function(*args, **kwargs)
        except SystemExit as problem:
            # reported by the task itself, so that it is not confused with a lost result
            left.problem(f"its function called sys.exit({problem.code!r}) and so returned nothing")
            raise
        except Exception as problem:  # noqa: BLE001 - it is the function's own, and its caller's to handle
            # frames of this file are of no use to the author of the function
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
