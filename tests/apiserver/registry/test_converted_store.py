"""The view of a version: what of its conversions is kept."""

import dataclasses
from collections.abc import Sequence

from rota.api import scheme
from rota.api.identifiers import GroupResource
from rota.apiserver import stored_form
from rota.apiserver.interfaces import Object
from rota.apiserver.registry.converted_store import ConvertedStore, KeptValues
from rota.testing.store_contract import opened

_MAPS = scheme.builtin().preferred(GroupResource("", "configmaps"))


class Counting:
    """A conversion that counts the objects that it was asked for."""

    storage_version = "v1"

    def __init__(self) -> None:
        self.asked = 0

    async def convert(self, objects: Sequence[Object], api_version: str, /) -> list[Object]:
        self.asked += len(objects)
        return [{**one, "apiVersion": api_version} for one in objects]


async def test_what_all_views_keep_together_is_limited_by_its_size() -> None:
    assert _MAPS is not None
    kept, conversions = KeptValues(most_bytes=2000), [Counting(), Counting()]
    async with opened("memory://") as store:
        for number in range(10):
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"m{number}"},
                "data": {"a": "x" * 300},
            }
            await store.create(f"/maps/{number}", stored_form.encode(body, _MAPS))
        views = [
            ConvertedStore(store, dataclasses.replace(_MAPS, version=version), conversion, kept)
            for version, conversion in zip(("v2", "v3"), conversions, strict=True)
        ]
        for _ in range(2):
            for view, version in zip(views, ("v2", "v3"), strict=True):
                entry = await view.get("/maps/1")
                assert entry is not None
                assert stored_form.is_in_version(entry.value, version)
        assert [one.asked for one in conversions] == [1, 1], "each view has converted it once"
        for view in views:
            assert len((await view.list("/maps/")).entries) == 10
        assert 0 < kept.size_bytes <= 2000
        await views[0].get("/maps/1")
        assert conversions[0].asked == 11, "the list did not convert it again, and pushed it out"
