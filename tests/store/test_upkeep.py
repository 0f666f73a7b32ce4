"""History is kept for a while, not for ever."""

from rota.kit import system
from rota.store import opening
from rota.store.upkeep import Compactor
from rota.testing.clocks import FakeClock


async def test_history_older_than_wanted_is_given_up_and_no_younger() -> None:
    clock = FakeClock()
    store = await opening.open_store("memory://", time=clock, chance=system.chance())
    compactor = Compactor(store, time=clock, keep_s=300, every_s=30)
    floors = []
    for step in range(15):
        await compactor.step()
        floors.append((await store.extent()).floor)
        await store.create(f"/a/{step}", b"")
        await clock.advance(30)
    # At step n the newest revision was n + 1; it is given up once 300 s, ten steps, have passed.
    assert floors == [0] * 10 + [1, 2, 3, 4, 5]
    await store.close()
