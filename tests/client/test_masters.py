"""Which addresses of masters a client or a worker should know."""

import random

from rota.api import times
from rota.client import client_factory, masters
from rota.client.masters import Master, Registration
from rota.kit import system
from rota.testing.api import ApiServer
from rota.worker.cluster_join.masters import merged

NOW = 1_000.0


def master(address: str, *, age_s: float = 0.0) -> Master:
    return Master(identity=f"host_{address}", address=address, version="1", renewed_at=NOW - age_s)


def test_a_join_command_names_the_masters_that_run_and_no_loopback_beside_others() -> None:
    listed = [master("https://10.0.0.2:6443"), master("https://10.0.0.3:6443", age_s=60.0)]
    assert masters.addresses(["https://api:6443"], listed, now=NOW) == ("https://api:6443", "https://10.0.0.2:6443")
    assert masters.addresses(["https://127.0.0.1:6443"], listed, now=NOW) == ("https://10.0.0.2:6443",)
    assert masters.addresses(["https://localhost:6443"], [], now=NOW) == ("https://localhost:6443",)


def test_a_worker_keeps_configured_masters_and_drops_unlisted_ones() -> None:
    told = ("https://api:6443",)
    both = merged(told, ["https://a:6443", "https://b:6443"], set())
    assert both == ("https://api:6443", "https://a:6443", "https://b:6443")
    assert merged(both, ["https://b:6443"], {"https://a:6443", "https://b:6443"}) == (*told, "https://b:6443")
    assert merged(told, ["https://127.0.0.1:6443"], set()) == told
    assert merged(("https://b:6443",), [], {"https://b:6443"}) == ("https://b:6443",), "never without any"


async def test_a_master_lists_itself_and_removes_those_that_are_long_gone() -> None:
    clock = system.SystemClock()
    async with (
        ApiServer() as server,
        client_factory.to_application(server.app, clock=clock, rng=random.Random(0)) as client,
    ):
        await Registration(client, identity="h_1", address="https://a:1", version="2", clock=clock).renew()
        gone = {"spec": {"renewTime": times.format_micro_time(clock.now() - 7200)}}
        await client.patch(masters.LEASES, "rota-master-1", gone, namespace=masters.NAMESPACE)
        other = Registration(client, identity="h_2", address="https://b:1", version="2", clock=clock)
        await other.renew()
        assert [one.address for one in await masters.listed(client)] == ["https://a:1", "https://b:1"]
        await other.remove_old()
        (left,) = await masters.listed(client)
        assert (left.identity, left.address, left.version) == ("h_2", "https://b:1", "2")
        assert left.is_current(clock.now())
