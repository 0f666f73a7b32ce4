"""The spot controller in a stock cluster when things go wrong: no notice missed, nobody told to go twice or in vain."""

import asyncio
import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import jwt
import pytest
import yaml
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from tests.stock import audits, spots
from tests.stock.cables import Cable
from tests.stock.clusters import LEASES, PODS, Cluster, cluster, connected
from tests.stock.doors import Door, GoOn, refusal
from tests.stock.spots import ACCOUNT, BUDGETS, USER, Onlooker, Plane, machine

from rota.client.verbs import Object
from rota.testing import manifests
from rota.testing.process_cluster import Member
from rota.testing.servers.kubernetes import write_kubeconfig

#: A server lets tokens in for so long after their end.
_LENIENCE_S = 60

pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with spots.plane(tmp_path_factory.mktemp("plane")) as made:
        yield made


@pytest.fixture
async def token(plane: Plane) -> str:
    async with connected(plane.server.kubeconfig()) as client:
        return await spots.token(client)


@contextlib.asynccontextmanager
async def world(plane: Plane, spot: int) -> AsyncIterator[tuple[Cluster, Onlooker]]:
    """Spot machines, a large one that stays, and somebody who looks on."""
    nodes = [*(machine(f"spot-{n}") for n in range(spot)), machine("stays-0", "on-demand", cores=16)]
    async with (
        cluster(plane.server.kubeconfig(), nodes, start_s=0.1) as it,
        Onlooker(it.client, it.namespace).looking() as onlooker,
    ):
        yield it, onlooker


def controller(folder: Path, name: str, config: Path) -> Member:
    """A controller as users start it."""
    return Member(
        name, ("spot-controller", "--kubeconfig", str(config)), folder=folder / name, ready="Acting on notices"
    )


def power_cycle(plane: Plane) -> None:
    """Kill the API server and start it again."""
    plane.server.kill()
    plane.server.start()


def pinned(name: str, node: str, replicas: int = 1, *, grace_s: int = 1) -> Object:
    """A workload that goes to one node as long as that takes pods."""
    made = spots.deployment(name, replicas, grace_s=grace_s)
    wish = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": wish}]}
    made["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": affinity}
    return made


def all_told_once(plane: Plane, it: Cluster, onlooker: Onlooker, *nodes: str) -> bool:
    """Whether all pods that ever were on these nodes were told to go, each of them once, and no others."""
    granted = audits.granted(plane.audit.asked(by=USER, namespace=it.namespace))
    return granted == Counter(uid for uid, node in onlooker.nodes.items() if node in nodes)


async def test_no_notice_is_missed_while_the_server_restarts_and_the_network_is_cut(
    plane: Plane, token: str, tmp_path: Path
) -> None:
    async with world(plane, 3) as (it, onlooker), Cable(plane.server.port).plugged_in() as cable:
        config = plane.kubeconfig(token, tmp_path / "config", port=cable.port)
        async with spots.controlling(config):
            await spots.deployed(it, onlooker, *(pinned(f"app-{n}", f"spot-{n}", 3) for n in range(3)))
            assert len(onlooker.on("spot-0", "spot-1", "spot-2")) == 9
            # the network is cut while a notice comes, and nobody tells the controller
            cable.cut()
            await spots.notice(it.client, "spot-0", lead_s=60.0)
            await asyncio.sleep(1.0)
            assert len(onlooker.on("spot-0")) == 3
            cable.mend()
            await spots.empty(it, onlooker, "spot-0", patience_s=55.0)
            # connections break in the middle of what a notice sets off
            await spots.notice(it.client, "spot-1", lead_s=60.0)
            cable.tear()
            await spots.empty(it, onlooker, "spot-1", patience_s=55.0)
            # the server goes away, with a notice as the last thing that it took
            await spots.notice(it.client, "spot-2", lead_s=60.0)
            await asyncio.to_thread(power_cycle, plane)
            await spots.empty(it, onlooker, "spot-2", patience_s=50.0)
            assert all_told_once(plane, it, onlooker, "spot-0", "spot-1", "spot-2")


async def test_a_leader_that_is_killed_or_cut_off_leaves_nothing_undone_and_nothing_twice(
    plane: Plane, token: str, tmp_path: Path
) -> None:
    async with world(plane, 3) as (it, onlooker), Cable(plane.server.port).plugged_in() as cable:
        cut_off = await asyncio.to_thread(
            controller, tmp_path, "first", plane.kubeconfig(token, tmp_path / "first.conf", port=cable.port)
        )
        members = [cut_off]
        try:
            first = await _leader(it, "")
            other = await asyncio.to_thread(
                controller, tmp_path, "second", plane.kubeconfig(token, tmp_path / "second.conf")
            )
            members.append(other)
            await spots.deployed(it, onlooker, *(pinned(f"app-{n}", f"spot-{n}", 3) for n in range(3)))
            await spots.notice(it.client, "spot-0", lead_s=60.0)
            # in the midst of it the leader is cut off, and does not know
            cable.cut()
            await spots.empty(it, onlooker, "spot-0", patience_s=40.0)
            second = await _leader(it, first)
            cable.mend()
            await spots.notice(it.client, "spot-1", lead_s=60.0)
            await spots.empty(it, onlooker, "spot-1", patience_s=40.0)
            await spots.notice(it.client, "spot-2", lead_s=60.0)
            await asyncio.to_thread(other.kill)
            await _leader(it, second)
            await spots.empty(it, onlooker, "spot-2", patience_s=40.0)
            assert all_told_once(plane, it, onlooker, "spot-0", "spot-1", "spot-2")
        finally:
            cable.mend()
            for member in members:
                await asyncio.to_thread(member.kill)


async def _leader(it: Cluster, other_than: str) -> str:
    """Who leads, once that is somebody else."""
    found = ""

    async def leads() -> bool:
        nonlocal found
        leases = (await it.client.list(LEASES, namespace="kube-system")).items
        mine = [one for one in leases if one["metadata"]["name"] == "rota-spot-controller"]
        found = str(mine[0]["spec"].get("holderIdentity") or "") if mine else ""
        return found not in {"", other_than}

    await it.until(leads, "somebody leads", patience_s=40.0)
    return found


async def test_a_token_that_ends_is_read_again_and_no_notice_is_missed(plane: Plane, tmp_path: Path) -> None:
    """Tokens of pods are short-lived, and a kubelet writes new ones into the same file."""
    file, config = tmp_path / "token", tmp_path / "config"
    async with world(plane, 2) as (it, onlooker):
        account = await spots.admit(it.client)
        file.write_text(_signed(plane, account, lives_s=8))
        await asyncio.to_thread(write_kubeconfig, config, server=plane.server.url, certificate=plane.server.certificate)
        document = yaml.safe_load(config.read_text())
        document["users"][0]["user"] = {"tokenFile": str(file)}
        config.write_text(yaml.safe_dump(document))
        ends = time.monotonic() + 8
        async with spots.controlling(config):
            await spots.deployed(it, onlooker, *(pinned(f"app-{n}", f"spot-{n}", 2) for n in range(2)))
            await spots.notice(it.client, "spot-0", lead_s=90.0)
            await spots.empty(it, onlooker, "spot-0", patience_s=55.0)
            await asyncio.sleep(max(0.0, ends - time.monotonic()))
            # a server that starts has forgotten whom it has let in before
            await asyncio.to_thread(power_cycle, plane)
            await spots.notice(it.client, "spot-1", lead_s=90.0)
            await asyncio.sleep(1.0)
            assert onlooker.on("spot-1")
            file.write_text(_signed(plane, account, lives_s=600))
            await spots.empty(it, onlooker, "spot-1", patience_s=40.0)
            assert all_told_once(plane, it, onlooker, "spot-0", "spot-1")


def _signed(plane: Plane, account: Object, *, lives_s: int) -> str:
    """A token of the controller's account, shorter than a server would issue one."""
    now, issuer = int(time.time()), "https://kubernetes.default.svc"
    begins, ends = now - 3600, now + lives_s - _LENIENCE_S
    key = serialization.load_pem_private_key(plane.server.certificate.with_suffix(".key").read_bytes(), password=None)
    who = {"name": ACCOUNT, "uid": account["metadata"]["uid"]}
    said = {
        "iss": issuer,
        "aud": [issuer],
        "sub": USER,
        "iat": begins,
        "nbf": begins,
        "exp": ends,
        "kubernetes.io": {"namespace": "kube-system", "serviceaccount": who},
    }
    return jwt.encode(said, key, algorithm="RS256")  # type: ignore[arg-type]  # the server's key is one of RSA


async def test_each_pod_is_evicted_once_whatever_the_response(plane: Plane, token: str, tmp_path: Path) -> None:
    """404, 409, 403, 429 with and without a time, an answer that is lost, and one that does not come."""
    apps = ["gone", "replaced", "forbidden", "full", "uncounted", "lost", "silent"]
    seen = defaultdict[str, list[web.Response | None]](list)
    async with world(plane, 2) as (it, onlooker), Door(plane.kubeconfig(token, tmp_path / "config")).open() as door:

        async def keeper(namespace: str, pod: str, go_on: GoOn) -> web.Response:
            app, first = pod.partition("-")[0], pod.partition("-")[0] not in seen
            seen[app].append(None)
            if first and app in {"gone", "replaced"}:
                await it.client.delete(PODS, pod, namespace=namespace, grace_period_s=0)
            if first and app == "replaced":
                # another of the same name, which nobody sends away
                await it.client.create(PODS, manifests.pod(pod, on="stays-0"), namespace=namespace)
            if first and app == "forbidden":
                return refusal(403, "Forbidden", "pods is forbidden: an administrator says so")
            if first and app == "silent":
                await asyncio.sleep(3600)
            seen[app][-1] = answer = await go_on()
            if first and app == "lost":
                raise ConnectionResetError
            return answer

        door.keeper = keeper
        nodes = ["spot-0", "spot-1"]
        await spots.deployed(it, onlooker, *(pinned(app, nodes[n % 2]) for n, app in enumerate(apps)))
        await spots.budgeted(it, "full", 1, app="full")
        await spots.budgeted(it, "uncounted", 0, app="uncounted")
        old = {pod["metadata"]["labels"]["app"]: pod["metadata"]["uid"] for pod in onlooker.on(*nodes)}
        assert set(old) == set(apps)
        async with spots.controlling(write_kubeconfig(tmp_path / "door", server=door.url)):
            # budgets that have changed are not believed until they are counted again, and nobody counts for now
            await asyncio.to_thread(plane.manager.pause)
            try:
                await it.client.patch(BUDGETS, "uncounted", {"spec": {"minAvailable": "0%"}}, namespace=it.namespace)
                await spots.notice(it.client, *nodes, lead_s=120.0)

                async def answered() -> bool:
                    return set(seen) == set(apps) and len(seen["full"]) > 1 and len(seen["uncounted"]) > 1

                await it.until(answered, "all are asked for", patience_s=40.0)
            finally:
                await asyncio.to_thread(plane.manager.resume)
            await it.client.patch(BUDGETS, "full", {"spec": {"minAvailable": 0}}, namespace=it.namespace)
            await spots.empty(it, onlooker, *nodes, patience_s=60.0)
        codes = defaultdict[str, list[int]](list)
        for one in plane.audit.asked(by=USER, namespace=it.namespace):
            codes[one.uid].append(one.code)
        assert {app: codes[old[app]] for app in apps if app not in {"full", "uncounted"}} == {
            "gone": [404],
            "replaced": [409],
            "forbidden": [201],
            "lost": [201],
            "silent": [201],
        }
        for app, wait in (("full", None), ("uncounted", "10")):
            assert set(codes[old[app]][:-1]) == {429}
            assert codes[old[app]][-1] == 201
            first_answer = seen[app][0]
            assert first_answer is not None
            assert first_answer.headers.get("Retry-After") == wait
        assert len(codes) == len(apps)
        told = await spots.reasons(it)
        assert told["SpotEvictionRefused"] == len({"forbidden", "full", "uncounted", "lost", "silent"})
