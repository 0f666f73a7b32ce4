"""Overload: users with too many requests wait or are refused; heartbeats and health checks get through."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rota.api import errors
from rota.client import client_factory, credentials
from rota.client.verbs import Client
from rota.kit import system
from rota.testing import manifests
from rota.testing.masters import Master

pytestmark = pytest.mark.slow

CLOCK = system.SystemClock()
MAPS = ("", "v1", "configmaps")
LEASES = ("coordination.k8s.io", "v1", "leases")
TOKENS = 'crowd-token,crowd,1,"people"\nann-token,ann,2,"people"\nnode-token,rota:beater,3,"people"\n'
PATH = "/api/v1/namespaces/default/configmaps"
SECONDS = 8.0


@asynccontextmanager
async def user_of(master: Master, token: str = "") -> AsyncIterator[Client]:
    """A client that does not retry when the server is busy; without a token, the administrator's."""
    endpoint = master.endpoint()
    if token:
        endpoint = replace(endpoint, client_certificate=None, client_key=None, credentials=credentials.bearer(token))
    async with client_factory.to_server(endpoint, clock=CLOCK, rng=random.Random(5)) as client:
        yield client.with_settings(retry=False, timeout_s=30.0)


async def prepare(admin: Client) -> None:
    binding = {
        "metadata": {"name": "people"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "people"}],
    }
    await admin.create(("rbac.authorization.k8s.io", "v1", "clusterrolebindings"), binding)
    for number in range(60):
        filled = manifests.config_map(f"m{number}", text="x" * 2_000)
        filled["metadata"]["namespace"] = "default"
        await admin.create(MAPS, filled)
    lease = {"metadata": {"name": "beat", "namespace": "default"}, "spec": {"holderIdentity": "me"}}
    await admin.create(LEASES, lease)


class Tally:
    """The responses to one user, and the longest duration."""

    def __init__(self) -> None:
        self.codes: Counter[int] = Counter()
        self.slowest_s = 0.0

    async def ask(self, call: Callable[[], Awaitable[object]]) -> None:
        begun = CLOCK.monotonic()
        try:
            await call()
        except errors.ApiError as error:
            self.codes[error.code] += 1
        else:
            self.codes[200] += 1
        self.slowest_s = max(self.slowest_s, CLOCK.monotonic() - begun)


async def test_a_crowd_slows_itself_down_and_not_the_heartbeats(start: Callable[..., Master], tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.touch(mode=0o600)
    tokens.write_text(TOKENS)
    master = start(f"sqlite:///{tmp_path}/store.db", options=("--token-auth-file", str(tokens), "--max-requests", "20"))
    domain_count, ann, beats, health = Tally(), Tally(), Tally(), Tally()
    async with (
        user_of(master) as admin,
        user_of(master, "crowd-token") as crowding,
        user_of(master, "ann-token") as annoyed,
        user_of(master, "node-token") as beating,
    ):
        await prepare(admin)
        ends = CLOCK.monotonic() + SECONDS

        async def repeat(tally: Tally, call: Callable[[], Awaitable[object]], pause_s: float) -> None:
            while CLOCK.monotonic() < ends:
                await tally.ask(call)
                await asyncio.sleep(pause_s)

        patch = {"spec": {"leaseDurationSeconds": 15}}
        await asyncio.gather(
            *(repeat(domain_count, lambda: crowding.request("GET", PATH), 0.0) for _ in range(150)),
            repeat(ann, lambda: annoyed.get(MAPS, "m0", namespace="default"), 0.1),
            repeat(beats, lambda: beating.patch(LEASES, "beat", patch, namespace="default"), 0.1),
            repeat(health, lambda: beating.request("GET", "/readyz"), 0.2),
        )
    assert domain_count.codes[429] > 0, domain_count.codes
    assert set(domain_count.codes) <= {200, 429}
    for tally in (ann, beats, health):
        assert set(tally.codes) == {200}, (ann.codes, beats.codes, health.codes)
        assert tally.codes[200] > 3, (ann.codes, beats.codes, health.codes, domain_count.codes)
    # a node is taken for dead after forty seconds, a leader loses its lease after ten
    assert beats.slowest_s < 5.0
