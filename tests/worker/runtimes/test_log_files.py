"""Logs of containers: the last lines of files of any size, through rotations, as reading all of them would give."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.testing.clocks import FakeClock
from rota.worker.runtimes.process import log_files
from rota.worker.runtimes.runtime_interface import LogOptions

TIME = "2026-05-01T12:30:00.000000Z"
LINES = st.lists(
    st.tuples(
        st.sampled_from(["stdout", "stderr"]), st.booleans(), st.binary(max_size=6).filter(lambda b: b"\n" not in b)
    )
)


async def read(path: Path, **options: Any) -> bytes:
    pieces = log_files.read(path, LogOptions(**options), clock=FakeClock(), ended=lambda: True)
    return b"".join([piece async for piece in pieces])


def write(path: Path, lines: list[tuple[str, bool, bytes]]) -> None:
    rows = [f"{TIME} {stream} {'F' if whole else 'P'} ".encode() + text + b"\n" for stream, whole, text in lines]
    path.write_bytes(b"".join(rows))


def expected(lines: list[tuple[str, bool, bytes]], count: int, stream: str) -> bytes:
    """The last lines, found by reading everything."""
    mine = [line for line in lines if not stream or line[0] == stream]
    kept: list[tuple[str, bool, bytes]] = []
    left = count - bool(mine and not mine[-1][1])
    for line in reversed(mine):
        left -= line[1]
        if left < 0:
            break
        kept.append(line)
    return b"".join(text + (b"\n" if whole else b"") for _, whole, text in reversed(kept))


@given(
    files=st.lists(LINES, min_size=1, max_size=3),
    count=st.integers(0, 12),
    stream=st.sampled_from(["", "stdout", "stderr"]),
    piece=st.integers(1, 200),
    half=st.binary(max_size=5).filter(lambda b: b"\n" not in b),
)
@settings(deadline=None)
async def test_the_last_lines_are_those_that_reading_everything_gives(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[tuple[str, bool, bytes]]],
    count: int,
    stream: str,
    piece: int,
    half: bytes,
) -> None:
    path = tmp_path_factory.mktemp("log") / "c.log"
    for number, lines in enumerate(reversed(files)):
        write(path if number == 0 else path.with_name(f"c.log.{number}"), lines)
    with path.open("ab") as newest:
        newest.write(half)
    every = [line for lines in files for line in lines]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_files, "_PIECE", piece)
        assert await read(path, tail_lines=count, stream=stream) == expected(every, count, stream)
        assert await read(path, stream=stream) == expected(every, len(every) + 1, stream)


async def test_the_last_line_of_a_large_log_costs_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.log"
    write(path, [("stdout", True, random.Random(0).randbytes(3).hex().encode())] * 200_000)
    parsed = 0

    def counting(raw: bytes) -> log_files.Line | None:
        nonlocal parsed
        parsed += 1
        return real(raw)

    real = log_files.parse
    monkeypatch.setattr(log_files, "parse", counting)
    assert (await read(path, tail_lines=2)).count(b"\n") == 2
    assert parsed < 10


async def test_a_log_is_cut_after_so_many_bytes_and_filtered_by_time(tmp_path: Path) -> None:
    path = tmp_path / "c.log"
    write(path, [("stdout", True, b"one"), ("stdout", True, b"two")])
    assert await read(path, limit_bytes=6) == b"one\ntw"
    assert await read(path, since=2e9) == b""
    assert await read(path, since=0.0, timestamps=True) == f"{TIME} one\n{TIME} two\n".encode()
