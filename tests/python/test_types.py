"""What type checkers see: a function's own parameters and what it returns, wherever it runs."""

import re
import sys
from pathlib import Path

import pytest
from mypy import api as mypy

#: Everything that does not show is left out, which takes most of the time otherwise.
SETTINGS = """
[mypy]
strict = true
follow_imports = silent
[mypy-rota.client.*,rota.api.*,rota.kit.*,yaml.*]
follow_imports = skip
"""

SOUND = """
import rota

@rota.task
def plain(left: int, right: str = "") -> float:
    return 1.0

@rota.task(cpu=2, memory="1Gi", env={"TOKEN": rota.from_secret("vault", "token")}, retries=3, timeout=5)
def asking(path: str) -> list[int]:
    return []

@rota.pipeline(schedule="0 6 * * *", failure_policy="continue")
def both(path: str, size: int = 1) -> float:
    found = asking.step(name="first")(path)
    many = plain.each(found)
    with rota.on_exit():
        plain.step(after=[found], when=many == [1.0])(size)
    return plain(size)

def use(client: rota.Client, other: rota.AsyncClient) -> None:
    reveal_type(plain)  # Task[[left: int, right: str =], float]
    reveal_type(plain(1))  # float
    reveal_type(plain.submit(1, right="x"))  # Future[float]
    reveal_type(plain.submit(1).result())  # float
    reveal_type(asking.map(["a"]))  # list[Future[list[int]]]
    reveal_type(asking.each(["a"]))  # list[list[int]]
    reveal_type(asking.options(cpu="500m"))  # Task[[path: str], list[int]]
    reveal_type(client.submit(plain, 1))  # Future[float]
    reveal_type(client.submit(sorted, [2, 1]).result())  # list[int]
    reveal_type(client.map(len, ["a"]))  # list[Future[int]]
    reveal_type(rota.results(client.map(len, ["a"])))  # list[int]
    reveal_type(next(iter(rota.as_completed([plain.submit(1)]))))  # Future[float]
    reveal_type(both.run(client, "a", size=3))  # Run[float]
    reveal_type(both.run(client, "a").result())  # float
    reveal_type(rota.Executor(client, cpu=1).submit(len, "a").result())  # int

async def wait(client: rota.AsyncClient) -> None:
    reveal_type(await (await client.submit(plain, 1)))  # float
"""

UNSOUND = """
import rota

@rota.task
def plain(left: int, right: str = "") -> float:
    return 1.0

@rota.pipeline
def pipe(size: int = 1) -> float:
    return plain(size)

def use(client: rota.Client) -> None:
    plain("a")  # arg-type
    plain.submit("a")  # arg-type
    plain.submit(1, wrong=2)  # call-arg
    client.submit(plain, "a")  # arg-type
    client.submit(len, 5)  # arg-type
    pipe.run(client, size="a")  # arg-type
    pipe.run(client, wrong=1)  # call-arg
    plain.options(cpus=2)  # call-arg
    rota.task(memory=5)(len)  # call-overload
    text: str = plain.submit(1).result()  # assignment
    rota.pipeline(failure_policy="sometimes")  # call-overload
"""


@pytest.mark.slow
def test_checkers_see_through_tasks_futures_and_pipelines(tmp_path: Path) -> None:
    sound, unsound = tmp_path / "right.py", tmp_path / "wrong.py"
    sound.write_text(SOUND)
    unsound.write_text(UNSOUND)
    settings = tmp_path / "mypy.ini"
    settings.write_text(SETTINGS)
    options = ["--no-incremental", "--python-executable", sys.executable, "--config-file", str(settings)]
    written, problems, _ = mypy.run([*options, str(sound), str(unsound)])
    assert not problems
    revealed = re.findall(r"right\.py:(\d+): note: Revealed type is \"(.*)\"", written)
    assert _errors(sound, written) == {}
    found = {int(line): re.sub(r"def |rota\.python\.\w+\.|builtins\.", "", text) for line, text in revealed}
    assert found == _expected(SOUND, "reveal_type")
    assert _errors(unsound, written) == _expected(UNSOUND, "")


def _errors(file: Path, written: str) -> dict[int, str]:
    found = re.findall(rf"{re.escape(file.name)}:(\d+): error: .*\[([\w-]+)\]", written)
    return {int(line): code for line, code in found}


def _expected(text: str, mark: str) -> dict[int, str]:
    lines = enumerate(text.splitlines(), start=1)
    return {number: line.rpartition("  # ")[2] for number, line in lines if "  # " in line and mark in line}
