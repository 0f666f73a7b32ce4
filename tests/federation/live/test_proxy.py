"""Members behind the control plane: users reach them as themselves, and nothing else of a request arrives."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.federation.live import live_place as live

from rota.api import errors
from rota.cli.commands.member_listing import at_member
from rota.client import client_factory, kubeconfig
from rota.client.verbs import Client
from rota.kit import system

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@contextlib.asynccontextmanager
async def behind(place: live.Place, cluster: str, **headers: str) -> AsyncIterator[Client]:
    clock, rng = system.SystemClock(), system.rng()
    endpoint = kubeconfig.load(place.processes.folder / "control" / "kubeconfig", clock=clock)
    endpoint = replace(at_member(endpoint, cluster), headers=headers)
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        yield client


async def grant(client: Client, user: str, resource: str, *verbs: str, group: str = "") -> None:
    name = f"{user}-{resource.replace('/', '-')}"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}],
    }
    bound = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    await client.create(("rbac.authorization.k8s.io", "v1", "clusterroles"), role)
    await client.create(("rbac.authorization.k8s.io", "v1", "clusterrolebindings"), bound)


async def test_a_user_arrives_as_itself_and_the_member_decides(fed: live.Place) -> None:
    ann = {"Impersonate-User": "ann", "Impersonate-Group": "developers", "Cookie": "session=1"}
    async with behind(fed, "m1", **ann) as member:
        # without the permission for the proxy nothing is passed on
        with pytest.raises(errors.Forbidden, match="clusters/proxy"):
            await member.list(live.CONFIG_MAPS, namespace="default")
        await grant(fed.control, "ann", "clusters/proxy", "get", "create", group="cluster.karmada.io")

        # the permission in the control plane gives none in the member
        async def refused_there() -> str:
            with pytest.raises(errors.Forbidden) as refusal:
                await member.list(live.CONFIG_MAPS, namespace="default")
            return str(refusal.value)

        said = await refused_there()
        while "clusters/proxy" in said:  # the control plane has not seen the role yet
            await asyncio.sleep(0.05)
            said = await refused_there()
        assert 'User "ann" cannot list resource "configmaps"' in said
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        asked = await member.request("POST", REVIEWS, body=json.dumps(body).encode())
        who = json.loads(asked)["status"]["userInfo"]
        assert who["username"] == "ann"
        assert sorted(who["groups"]) == ["developers", "system:authenticated"]
        await grant(fed.members["m1"], "ann", "configmaps", "list")
        found = None
        while found is None:
            with contextlib.suppress(errors.Forbidden):
                found = await member.list(live.CONFIG_MAPS, namespace="default")
    # a user who may not impersonate in the control plane cannot do so through it
    async with behind(fed, "m2", **{"Impersonate-User": "bob"}) as other:
        with pytest.raises(errors.Forbidden, match='"bob"'):
            await other.list(live.CONFIG_MAPS)


async def test_objects_of_all_clusters_are_listed_together(fed: live.Place) -> None:
    for name, member in fed.members.items():
        await member.create(live.CONFIG_MAPS, live.config_map(f"of-{name}", "default", where=name))
    listed = await asyncio.to_thread(
        fed.processes.federation.rota, "federation", "get", "configmaps", "--clusters", "m1,m3"
    )
    assert listed.returncode == 0, listed.stderr
    rows = {tuple(line.split()[:2]) for line in listed.stdout.splitlines()}
    assert {("m1", "of-m1"), ("m3", "of-m3")} <= rows
    assert not any(cluster == "m2" for cluster, _ in rows)
    one = await asyncio.to_thread(
        fed.processes.federation.rota, "federation", "get", "cm", "of-m2", "--clusters", "m2", "-o", "json"
    )
    assert json.loads(one.stdout)["items"][0]["data"] == {"where": "m2"}
    missing = await asyncio.to_thread(fed.processes.federation.rota, "federation", "get", "cm", "--clusters", "nowhere")
    assert missing.returncode != 0
    assert "nowhere" in missing.stderr


async def test_watches_go_through_and_a_member_that_is_unknown_is_said_to_be(fed: live.Place) -> None:
    async with behind(fed, "m1") as member:
        listing = await member.list(live.CONFIG_MAPS, namespace="default")
        async with member.watch(
            live.CONFIG_MAPS, namespace="default", resource_version=listing.resource_version, bookmarks=False
        ) as events:
            await fed.members["m1"].create(live.CONFIG_MAPS, live.config_map("seen", "default"))
            async with asyncio.timeout(30):
                async for event in events:
                    if event.object["metadata"]["name"] == "seen":
                        break
    async with behind(fed, "m9") as nowhere:
        with pytest.raises(errors.NotFound):
            await nowhere.list(live.CONFIG_MAPS)
