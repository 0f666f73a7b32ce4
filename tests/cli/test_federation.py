"""`rota federation decide`: scenarios in, one decision per line out, and what bad lines get."""

import gzip
import io
import json
from pathlib import Path

import pytest

from rota.cli.main import main

DIVISION = {"id": "a", "category": "divide", "replicas": 3, "weights": [{"name": "m1", "replicas": 1}]}
DECISION = {"id": "a", "decision": {"result": [{"name": "m1", "replicas": 3}]}}


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    given = io.BytesIO()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(given))
    return given


def answers(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_line_has_its_decision(standard_input: io.BytesIO, capsys: pytest.CaptureFixture[str]) -> None:
    standard_input.write("\n".join(json.dumps({**DIVISION, "id": name}) for name in ("a", "b")).encode())
    standard_input.seek(0)
    assert main(["federation", "decide"]) == 0
    assert answers(capsys) == [DECISION, {**DECISION, "id": "b"}]


def test_a_compressed_file_will_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scenarios.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(DIVISION).encode()))
    assert main(["federation", "decide", str(file)]) == 0
    assert answers(capsys) == [DECISION]


@pytest.mark.parametrize(
    ("line", "name", "words"),
    [
        ("nonsense", None, "line 2: not JSON"),
        ("[1]", None, "line 2: a scenario is a JSON object"),
        ('{"id": "x", "category": "zap"}', "x", "line 2: category 'zap' is not known; use one of bind, collect"),
        ('{"id": "x", "category": "divide"}', "x", "line 2: divide needs the member 'replicas'"),
        ('{"id": "x", "category": "divide", "replicas": "many", "weights": []}', "x", "line 2: divide cannot be read"),
        ('{"id": "x", "category": "interpret", "operation": "Guess", "object": {}}', "x", "line 2: interpret cannot"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_decided(
    line: str, name: str | None, words: str, standard_input: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    standard_input.write(f"{json.dumps(DIVISION)}\n{line}\n\n{json.dumps(DIVISION)}\n".encode())
    standard_input.seek(0)
    assert main(["federation", "decide"]) == 3
    first, bad, last = answers(capsys)
    assert first == last == DECISION
    assert bad["id"] == name
    assert str(bad["error"]).startswith(words)
