"""What is left of a list is counted once and right on every page, whoever asks and however often."""

from collections.abc import Awaitable, Callable

import pytest

from rota.store.backends.postgres.engine import PostgresEngine
from rota.store.contract import Delete, Put, Transaction

pytestmark = pytest.mark.slow


async def test_what_remains_of_a_list_is_exact_on_every_page(
    engines: Callable[..., Awaitable[PostgresEngine]],
) -> None:
    engine, other = await engines(), await engines()
    await engine.apply([Transaction((Put(f"/a/{number:02}", b"v"),)) for number in range(50)])
    first = await engine.scan("/a/", limit=7, after="", revision=0)
    assert first.remaining == 43
    # Neither what changes meanwhile nor a page asked for twice or elsewhere makes a difference.
    await other.apply([Transaction((Delete(f"/a/{number:02}"),)) for number in range(0, 50, 2)])
    page, seen = first, [entry.key for entry in first.entries]
    while page.remaining:
        after = page.entries[-1].key
        page, again, elsewhere = [
            await each.scan("/a/", limit=7, after=after, revision=first.revision) for each in (engine, engine, other)
        ]
        assert page == again == elsewhere
        seen += [entry.key for entry in page.entries]
        assert page.remaining == 50 - len(seen)
    assert seen == [f"/a/{number:02}" for number in range(50)]
