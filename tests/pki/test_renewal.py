import asyncio
import contextlib
import stat
from pathlib import Path

import pytest

from rota.pki import files, renewal
from rota.pki.authorities import DAY_S, Authority, Purpose
from rota.pki.certificates import Identity, Subject
from rota.pki.renewal import Renewal
from rota.testing.clocks import FakeClock

LIFE_S = 9 * DAY_S


async def test_a_certificate_is_replaced_long_before_it_ends_and_again_and_again() -> None:
    clock = FakeClock()
    authority = Authority.create(now=clock.now())
    installed: list[Identity] = []

    def issue() -> Identity:
        return authority.issue(Subject(common_name="rota"), purpose=Purpose.SERVER, now=clock.now(), lifetime_s=LIFE_S)

    first = issue()
    task = asyncio.create_task(Renewal("server", first, issue=issue, install=installed.append, clock=clock).run())
    try:
        await clock.advance(5 * DAY_S)
        assert installed == []
        await clock.advance(1.2 * DAY_S)
        assert len(installed) == 1
        for _ in range(4):
            await clock.advance(3 * DAY_S)
            assert installed[-1].facts.holds_at(clock.now() + DAY_S)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_clock_that_jumps_ahead_is_noticed_within_an_hour() -> None:
    clock = FakeClock()
    authority = Authority.create(now=clock.now())
    installed: list[Identity] = []

    def issue() -> Identity:
        return authority.issue(Subject(common_name="rota"), purpose=Purpose.SERVER, now=clock.now(), lifetime_s=LIFE_S)

    task = asyncio.create_task(Renewal("server", issue(), issue=issue, install=installed.append, clock=clock).run())
    try:
        await clock.settle()
        clock.step_wall(80 * DAY_S)
        await clock.advance(3600)
        assert len(installed) == 1
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def test_two_thirds_of_a_life_are_enough() -> None:
    authority = Authority.create(now=0.0 + DAY_S)
    made = authority.issue(Subject(common_name="a"), purpose=Purpose.CLIENT, now=DAY_S, lifetime_s=3 * DAY_S)
    assert renewal.due(made) == pytest.approx(3 * DAY_S, abs=300)


def test_private_files_are_for_their_owner_and_leave_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    path.chmod(0o644)
    files.write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["kubeconfig"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(files.PrivateFileError, match="No such file"):
        files.write_private(tmp_path / "missing" / "kubeconfig", b"")
