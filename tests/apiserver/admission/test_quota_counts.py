"""A client that is refused again and again has the namespace counted once, until something in it changes."""

import secrets
from pathlib import Path
from typing import Any

import pytest

from rota.apiserver.admission.resource_quota import ResourceQuota
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock

SPACE = "/api/v1/namespaces/default"


@pytest.mark.parametrize("store", ["memory://", "sqlite:///{folder}/store"])
async def test_refusals_share_one_count(store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    counts: list[object] = []
    count = ResourceQuota._count

    async def noted(self: ResourceQuota, *arguments: Any) -> dict[str, int]:
        counts.append(arguments)
        return await count(self, *arguments)

    monkeypatch.setattr(ResourceQuota, "_count", noted)
    clock = FakeClock()
    async with ApiServer(clock=clock, store_url=store.format(folder=tmp_path)) as api:
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "1"}}}
        assert (await api.post(f"{SPACE}/resourcequotas", quota)).code == 201
        made = [(await api.post(f"{SPACE}/configmaps", {"metadata": {"name": f"m{n}"}})).code for n in range(6)]
        assert made == [201, 403, 403, 403, 403, 403]
        before = len(counts)
        assert before <= 2  # one to fill the status of the new quota, one for the refusals
        await api.post(f"{SPACE}/secrets", {"metadata": {"name": "other"}})  # of a kind that is not counted
        assert (await api.post(f"{SPACE}/configmaps", {"metadata": {"name": "again"}})).code == 403
        assert len(counts) == before
        await clock.advance(2)
        assert (await api.post(f"{SPACE}/configmaps", {"metadata": {"name": "late"}})).code == 403
        assert len(counts) == before + 1


async def test_what_is_freed_on_any_server_can_be_used_with_the_next_request() -> None:
    clock, shared = FakeClock(), f"memory://{secrets.token_hex(8)}"
    async with ApiServer(clock=clock, store_url=shared) as one, ApiServer(clock=clock, store_url=shared) as other:
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "1", "pods": "1"}}}
        assert (await one.post(f"{SPACE}/resourcequotas", quota)).code == 201
        assert (await one.post(f"{SPACE}/configmaps", {"metadata": {"name": "m0"}})).code == 201
        for number in range(1, 20):
            new = {"metadata": {"name": f"m{number}"}}
            refused = [(await one.post(f"{SPACE}/configmaps", new)).code for _ in range(3)]
            assert refused == [403, 403, 403]
            server = other if number % 2 else one
            assert (await server.delete(f"{SPACE}/configmaps/m{number - 1}")).code == 200
            assert (await one.post(f"{SPACE}/configmaps", new)).code == 201
