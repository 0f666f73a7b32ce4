"""The file of what must be known after a crash."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.worker import append_log
from rota.worker.append_log import AppendLog

KEYS = st.sampled_from(["a", "b", "c-1.2"])
STEPS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.from_regex(rb"[ -~]{1,20}", fullmatch=True))), max_size=30)


def _apply(made: AppendLog, steps: list[tuple[str, bytes | None]]) -> None:
    for key, text in steps:
        if text is None:
            made.drop(key)
        else:
            made.put(key, text)


def _after(steps: list[tuple[str, bytes | None]]) -> dict[str, bytes]:
    known: dict[str, bytes] = {}
    for key, text in steps:
        if text is None:
            known.pop(key, None)
        else:
            known[key] = text
    return known


def _known(made: AppendLog) -> dict[str, bytes]:
    return {key: found for key in ("a", "b", "c-1.2") if (found := made.get(key)) is not None}


@pytest.mark.slow
@settings(max_examples=50)
@given(STEPS)
def test_entries_are_read_again_after_opening(steps: list[tuple[str, bytes | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = AppendLog(Path(folder) / "x.ledger")
        _apply(first, steps)
        # Not closed: its program was killed.
        second = AppendLog(Path(folder) / "x.ledger")
        assert _known(second) == _known(first) == _after(steps)
        assert list(second.texts()) == list(_after(steps).values())
        assert len(second) == len(_after(steps))
        first.close()
        second.close()


@pytest.mark.slow
@settings(max_examples=50)
@given(STEPS, st.integers(0, 600))
def test_a_line_that_was_cut_off_is_as_if_it_had_not_been_written(
    steps: list[tuple[str, bytes | None]], kept: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.ledger"
        first = AppendLog(path)
        _apply(first, steps)
        first.close()
        os.truncate(path, min(kept, path.stat().st_size))
        second = AppendLog(path)
        assert _known(second) in [_after(steps[:count]) for count in range(len(steps) + 1)]
        second.put("a", b"new")
        second.close()
        third = AppendLog(path)
        assert third.get("a") == b"new"
        third.close()


def test_a_file_does_not_grow_with_what_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_log, "_MOST_STALE", 10)
    path = tmp_path / "x.ledger"
    made = AppendLog(path)
    made.put("kept", b"text")
    for number in range(200):
        made.put(f"run-{number}", b"x" * 100)
        made.drop(f"run-{number}")
    made.put("last", b"text")
    assert path.stat().st_size < 2000
    made.close()
    again = AppendLog(path)
    assert list(again.texts()) == [b"text", b"text"]
    again.close()


def test_what_cannot_be_written_down_is_not_known_and_spoils_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.ledger"
    made = AppendLog(path)
    made.put("a", b"1")
    working = made._fd
    made._fd = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space"):
        made.put("b", b"2")
    os.close(made._fd)
    made._fd = working
    assert made.get("b") is None
    made.put("c-1.2", b"3")
    made.close()
    again = AppendLog(path)
    assert _known(again) == {"a": b"1", "c-1.2": b"3"}
    again.close()
