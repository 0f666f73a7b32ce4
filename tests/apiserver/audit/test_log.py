"""The audit log's file: whole lines, bounded files, and a report of dropped lines."""

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.apiserver.audit import log as audit_log
from rota.apiserver.audit.log import AuditLog, RotatingFile
from rota.kit import errors, system
from rota.kit.metrics import Metrics

CLOCK = system.SystemClock()


def made(path: Path, **settings: Any) -> AuditLog:
    return AuditLog(path, clock=CLOCK, metrics=Metrics("apiserver"), **settings)


async def test_every_line_is_there_in_order_once_the_log_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    async with made(path) as log:
        for number in range(5000):
            log.write(b"%d\n" % number)
            if number % 1000 == 0:
                await asyncio.sleep(0)
    assert path.read_text().split() == [str(number) for number in range(5000)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for text in (b"first\n", b"second\n"):
        async with made(path) as log:
            log.write(text)
    assert path.read_text() == "first\nsecond\n"


@given(sizes=st.lists(st.integers(1, 40), max_size=60), most=st.integers(20, 100), kept=st.integers(0, 3))
def test_files_are_bounded_in_size_and_number_and_hold_the_latest_lines(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], most: int, kept: int
) -> None:
    folder = tmp_path_factory.mktemp("rotation")
    file = RotatingFile(folder / "log", most_bytes=most, kept=kept)
    for index, size in enumerate(sizes):
        file.append((f"{index}".ljust(size, ".") + "\n").encode())
    file.close()
    names = sorted((item.name for item in folder.iterdir()), reverse=True)
    assert len(names) <= kept + 1
    whole = b"".join((folder / name).read_bytes() for name in names)
    lines = [line.rstrip(".") for line in whole.decode().splitlines()]
    assert lines == [str(index) for index in range(len(sizes))][len(sizes) - len(lines) :]
    assert all((folder / name).stat().st_size <= max(most, 41) for name in names)


async def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = RotatingFile(path, most_bytes=1000, kept=1)
    file.append(b"before\n")
    path.rename(tmp_path / "elsewhere")
    file.append(b"after\n")
    file.close()
    assert path.read_text() == "after\n"


async def test_what_is_too_much_is_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "_MOST_PENDING_BYTES", 100)
    path = tmp_path / "log"
    async with made(path) as log:
        for _ in range(30):
            log.write(b"123456789\n")
    *lines, gap = path.read_text().splitlines()
    assert lines == ["123456789"] * 10
    assert json.loads(gap)["annotations"] == {"rota.dev/dropped-events": "20"}


async def test_a_failing_disk_blocks_no_request_and_dropped_lines_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(audit_log, "_PAUSE_S", 0.0)
    path = tmp_path / "log"
    full = True
    write = os.write

    def failing(file: int, data: bytes) -> int:
        if full:
            write(file, bytes(data)[:3])
            raise OSError(28, "No space left on device")
        return write(file, data)

    async with made(path) as log:
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", failing)
            for _ in range(3):
                log.write(b"lost\n")
                await asyncio.sleep(0.05)
            full = False
            log.write(b"kept\n")
            await asyncio.sleep(0.05)
    first, gap = path.read_text().splitlines()
    assert first == "kept"
    assert json.loads(gap)["annotations"] == {"rota.dev/dropped-events": "3"}
    assert caplog.messages.count("the audit log cannot be written") == 1


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(errors.UserError, match="cannot write the audit log"):
        made(tmp_path / "none" / "log")
