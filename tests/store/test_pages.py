"""The remaining count of a list is computed once and right on every page."""

import pytest

from rota.store.store_interface import Delete, Put, Store, Transaction

pytestmark = pytest.mark.slow


async def test_what_remains_of_a_list_is_exact_on_every_page(store: Store, second: Store) -> None:
    for number in range(50):
        await store.commit(Transaction((Put(f"/a/{number:02}", b"v"),)))
    first = await store.list("/a/", limit=7)
    assert first.remaining == 43
    # Neither what changes meanwhile nor a page asked for twice or elsewhere makes a difference.
    for number in range(0, 50, 2):
        await second.commit(Transaction((Delete(f"/a/{number:02}"),)))
    page, seen = first, [entry.key for entry in first.entries]
    while page.remaining:
        after = page.entries[-1].key
        page, again, elsewhere = [
            await each.list("/a/", limit=7, after=after, revision=first.revision) for each in (store, store, second)
        ]
        assert page == again == elsewhere
        seen += [entry.key for entry in page.entries]
        assert page.remaining == 50 - len(seen)
    assert seen == [f"/a/{number:02}" for number in range(50)]
