"""What a promotion costs and loses: a standby process follows a primary that is written to as fast as it takes writes.

Two cases: a change over (the primary is fenced off first) and the loss of the primary (its writers and the way to it
stop in the middle, and the standby is promoted with what it has). Prints a JSON object. Run it as:
.venv/bin/python benchmarks/standby.py
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rota.kit import system
from rota.store import roles, standby, store_factory
from rota.store.roles import FencedStore, Superseded
from rota.store.standby_sources import StoreSource
from rota.store.store_interface import Put, Store, Transaction

WRITERS, SECONDS, VALUE = 32, 5.0, b"x" * 800
CLOCK = system.SystemClock()
ROTA = str(Path(sys.executable).with_name("rota"))


async def opened(path: Path, *, create: bool = True) -> Store:
    """A SQLite store."""
    return await store_factory.open_store(f"sqlite:///{path}", time=CLOCK, rng=system.rng(), create=create)


async def case(folder: Path, *, planned: bool) -> dict[str, float]:
    """Write, promote, and count what was accepted and is missing."""
    await asyncio.to_thread(folder.mkdir)
    primary = await opened(folder / "primary.db")
    master = await FencedStore.of(primary)
    accepted: list[str] = []

    async def write(writer: int) -> None:
        number = 0
        while True:
            key = f"/bench/{writer}/{number}"
            await master.commit(Transaction((Put(key, VALUE),)))
            accepted.append(key)
            number += 1

    arguments = [
        ROTA,
        "standby",
        "--from",
        f"sqlite:///{folder}/primary.db",
        "--store",
        f"sqlite:///{folder}/target.db",
    ]
    following = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: ASYNC220
    try:
        assert following.stdout is not None
        await asyncio.to_thread(following.stdout.readline)
        target = await opened(folder / "target.db", create=False)
        writing = [asyncio.create_task(write(number)) for number in range(WRITERS)]
        began, behind = CLOCK.monotonic(), []
        while CLOCK.monotonic() - began < SECONDS:
            await asyncio.sleep(0.1)
            newest = (await primary.revision_range()).revision
            behind.append(newest - (await roles.read(target)).role.position)
        rate = len(accepted) / (CLOCK.monotonic() - began)
        if not planned:
            # The way to the primary is cut: the standby process receives nothing more.
            following.kill()
            for one in writing:
                one.cancel()
        at = CLOCK.monotonic()
        done = await standby.promote(
            target,
            time=CLOCK,
            primary=primary if planned else None,
            source=StoreSource(primary, CLOCK) if planned else None,
        )
        took = CLOCK.monotonic() - at
        outcomes = await asyncio.gather(*writing, return_exceptions=True)
        assert all(isinstance(one, Superseded if planned else asyncio.CancelledError) for one in outcomes)
        kept = {entry.key for entry in (await target.list("/bench/")).entries}
        await target.close()
    finally:
        following.terminate()
        following.wait()
        await primary.close()
    lost = [key for key in accepted if key not in kept]
    return {
        "accepted": len(accepted),
        "writes_per_s": round(rate),
        "behind_median_writes": sorted(behind)[len(behind) // 2],
        "behind_most_writes": max(behind),
        "lost": len(lost),
        "lost_ms": round(1000 * len(lost) / rate, 1),
        "promotion_s": round(took, 3),
        "epoch": done.epoch,
    }


async def main() -> None:
    """Run both cases."""
    with tempfile.TemporaryDirectory() as folder:
        result = {
            "change_over": await case(Path(folder) / "a", planned=True),
            "loss": await case(Path(folder) / "b", planned=False),
            "load": os.getloadavg()[0],
        }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
