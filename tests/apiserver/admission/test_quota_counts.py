"""Repeated refusals by a quota do not count the namespace each time."""

from typing import Any

import pytest

from rota.apiserver.admission.resource_quota import ResourceQuota
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock

SPACE = "/api/v1/namespaces/default"


async def test_refusals_share_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[object] = []
    count = ResourceQuota._count

    async def noted(self: ResourceQuota, *arguments: Any) -> dict[str, int]:
        counts.append(arguments)
        return await count(self, *arguments)

    monkeypatch.setattr(ResourceQuota, "_count", noted)
    clock = FakeClock()
    async with ApiServer(clock=clock) as api:
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "1"}}}
        assert (await api.post(f"{SPACE}/resourcequotas", quota)).code == 201
        made = [(await api.post(f"{SPACE}/configmaps", {"metadata": {"name": f"m{n}"}})).code for n in range(6)]
        assert made == [201, 403, 403, 403, 403, 403]
        before = len(counts)
        assert before <= 2  # one to fill the status of the new quota, one for the refusals
        await clock.advance(2)
        assert (await api.post(f"{SPACE}/configmaps", {"metadata": {"name": "late"}})).code == 403
        assert len(counts) == before + 1
