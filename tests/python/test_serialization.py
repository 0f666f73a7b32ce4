"""Calls as bytes, and the far side that reads them: everything that needs no cluster."""

import dataclasses
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.python import failures, serialization, task_runner
from rota.python.serialization import Packed

LOCK = threading.Lock()


@dataclasses.dataclass
class Point:
    x: int


def move(point: Point, by: int = 1) -> Point:
    return Point(point.x + by)


def guarded() -> None:
    with LOCK:
        pass


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.tuples(st.integers()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(_JSON)
def test_a_value_is_read_as_it_was_written(value: Any) -> None:
    again = task_runner.read(task_runner.write(value))
    assert repr(again) == repr(value), "types as well: a tuple is no list, 1 is no 1.0"


def test_plain_values_are_written_so_that_people_and_conditions_can_read_them() -> None:
    assert task_runner.write(["Oslo", 5, {"a": None}]) == '["Oslo",5,{"a":null}]'
    assert task_runner.write((1, 2)).startswith("pickle:")


def test_what_is_in_a_file_is_checked(tmp_path: Path) -> None:
    path, digest = task_runner.put_away(b'"large"', str(tmp_path), "step")
    text = f"file:{digest}:{path}"
    assert task_runner.read(text) == "large"
    assert Path(path).stat().st_mode & 0o777 == 0o600
    Path(path).write_bytes(b'"other"')
    with pytest.raises(task_runner.Missing, match="digest"):
        task_runner.read(text)
    Path(path).unlink()
    with pytest.raises(task_runner.Missing, match="No such file"):
        task_runner.read(text)


@pytest.mark.parametrize(
    ("function", "args", "said"),
    [
        (
            move,
            (LOCK,),
            r"the argument point of move \(.*test_serialization.py:\d+\), a _thread.lock, cannot be sent: cannot",
        ),
        (guarded, (), r"guarded \(.*test_serialization.py:\d+\) uses LOCK, a _thread.lock, which cannot be sent"),
    ],
)
def test_what_cannot_be_sent_is_named_with_the_line_of_the_function(function: Any, args: Any, said: str) -> None:
    with pytest.raises(failures.NotPicklable, match=said):
        serialization.pack(function, args, {}, name=function.__name__)


# --- the far side, in a process of its own ----------------------------------------------------------------------------


def _run(
    function: Any, *args: Any, folder: Path, key: str = "key", python: str = "", **header: Any
) -> tuple[int, str, str]:
    """Run a call as a worker would; its exit code, what it left, what it wrote."""
    packed = Packed(name=function.__name__, content=serialization.pack(function, args, {}, name=function.__name__))
    task = {**json.loads(packed.header(parts=len(packed.parts()), results=str(folder))), **header}
    if python:
        task["python"] = python
    outputs = folder / "outputs"
    outputs.touch()
    variables = {
        "PATH": os.environ["PATH"],
        "ROTA_TASK": json.dumps(task),
        "ROTA_TASK_KEY": key,
        "ROTA_OUTPUTS": str(outputs),
        "ROTA_BOOTSTRAP": serialization.bootstrap_text(),
        **{f"ROTA_TASK_{number}": part for number, part in enumerate(packed.parts())},
    }
    program = "import os,zlib,base64 as b;exec(zlib.decompress(b.b64decode(os.environ.pop('ROTA_BOOTSTRAP'))))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False, cwd=folder
    )
    return done.returncode, outputs.read_text(), done.stderr


@pytest.mark.slow
def test_code_that_is_not_installed_travels_with_the_call(tmp_path: Path) -> None:
    code, left, said = _run(move, Point(2), folder=tmp_path)
    assert (code, said) == (0, "")
    outputs = json.loads(left)
    assert task_runner.read(outputs["result"]) == Point(3), "and what comes back is of the same class"
    assert outputs["mac"] == task_runner.sign("key", "result", outputs["result"])


@pytest.mark.slow
def test_another_version_of_python_is_reported_in_one_line(tmp_path: Path) -> None:
    code, left, said = _run(move, Point(2), folder=tmp_path, python="2.7")
    assert code == task_runner.HOPELESS
    assert said.startswith("rota: the task was written by Python 2.7 and would be run by Python 3.")
    assert len(said.splitlines()) == 1
    assert json.loads(left)["problem"] in said


@pytest.mark.slow
def test_a_module_that_the_far_side_lacks_is_named(tmp_path: Path) -> None:
    def lost(value: Any) -> Any:
        return value

    class Gone:
        def __reduce__(self) -> Any:
            return __import__, ("no_such_module",)

    code, left, _ = _run(lost, Gone(), folder=tmp_path)
    assert code == task_runner.HOPELESS
    assert "has no module no_such_module, which lost needs; install it there" in json.loads(left)["problem"]


@pytest.mark.slow
def test_errors_whose_type_cannot_be_sent_leave_their_words(tmp_path: Path) -> None:
    def fail() -> None:
        class Odd(Exception):
            def __init__(self, first: int, second: int) -> None:
                super().__init__("odd")

        raise Odd(1, 2)

    code, left, said = _run(fail, folder=tmp_path)
    record = json.loads(json.loads(left)["error"])
    assert (code, record["type"], record["message"]) == (1, "Odd", "odd")
    assert "exception" not in record, "it could not be made again on the other side"
    assert "raise Odd(1, 2)" in record["traceback"]
    assert record["traceback"] == said


@pytest.mark.slow
def test_large_errors_fit_where_there_is_no_folder(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("ü" * 100_000)

    code, left, _ = _run(fail, folder=tmp_path, results="")
    assert code == 1
    assert len(left.encode()) <= task_runner.MOST_BYTES
    assert json.loads(json.loads(left)["error"])["type"] == "ValueError"


@pytest.mark.slow
def test_the_function_sees_none_of_our_variables(tmp_path: Path) -> None:
    def look() -> list[str]:
        return [name for name in os.environ if name.startswith("ROTA")]

    assert task_runner.read(json.loads(_run(look, folder=tmp_path)[1])["result"]) == []
