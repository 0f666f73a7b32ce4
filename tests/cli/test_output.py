"""Tables, documents and progress: pretty on a terminal, plain in a pipe."""

import io
import json
import sys
from collections.abc import Callable

import pytest

from rota.cli import output

ROWS = [["a", 1], ["long name", 12345]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("not a file")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "60")

    def install() -> Terminal:
        stream = Terminal()
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return install


def test_a_table_in_a_pipe_is_aligned_text(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["NAME", "SIZE"], ROWS, right=["SIZE"])
    assert capsys.readouterr().out == "NAME        SIZE\na              1\nlong name  12345\n"


def test_a_table_without_rows_is_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["NAME", "SIZE"], [])
    assert capsys.readouterr().out == "NAME  SIZE\n"


def test_a_table_on_a_terminal_has_style_and_without_colour_has_none(
    terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = terminal()
    output.table(["NAME", "SIZE"], ROWS)
    assert "\x1b[1m" in stream.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    stream = terminal()
    output.table(["NAME", "SIZE"], ROWS)
    assert "\x1b" not in stream.getvalue()
    assert "long name" in stream.getvalue()


def test_a_name_can_neither_be_markup_nor_steer_the_terminal(
    capsys: pytest.CaptureFixture[str], terminal: Callable[[], Terminal]
) -> None:
    name = "[red]x[/red]\x1b[2J\nnext"
    output.table(["NAME"], [[name]])
    assert capsys.readouterr().out == "NAME\n[red]x[/red] [2J next\n"
    stream = terminal()
    output.table(["NAME"], [[name]])
    assert "[red]x[/red] [2J next" in stream.getvalue()


def test_a_document_is_one_line_in_a_pipe_and_indented_on_a_terminal(
    capsys: pytest.CaptureFixture[str], terminal: Callable[[], Terminal]
) -> None:
    value = {"name": "Zoë", "sizes": [1, 2]}
    output.document(value)
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert "Zoë" in line
    stream = terminal()
    output.document(value)
    assert stream.getvalue().count("\n") > 3
    assert json.loads(line) == json.loads(stream.getvalue()) == value


def test_progress_is_silent_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress("copying", total=2) as advance:
        advance(2)
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal_names_the_work_and_counts_it(terminal: Callable[[], Terminal]) -> None:
    stream = terminal()
    with output.progress("copying [objects]", total=2) as advance:
        advance(1)
        advance(1)
    assert "copying [objects]" in stream.getvalue()
    assert "2/2" in stream.getvalue()
