"""What a part may do, asked beforehand: exactly what is missing is named."""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.api import errors
from rota.client import rights
from rota.client.rights import MissingRights, Right, table
from rota.client.verbs import Client
from rota.extender import rights as extender_rights
from rota.notices import rights as notice_rights
from rota.scheduler import rights as scheduler_rights
from rota.spot_control import rights as spot_rights
from rota.testing import access, virtual_api
from rota.testing.virtual_api import VirtualCluster

MANIFESTS = Path(__file__).parents[2] / "packaging" / "manifests"
PACKAGED = "rota-system"
SCHEDULER = scheduler_rights.needed(("kube-system", "kube-scheduler"))
EXTENDER = extender_rights.needed(binds=True)
SPOT = (*spot_rights.needed(namespace="kube-system", dry_run=False), *notice_rights.EVENTS)
AGENT = notice_rights.needed_by_agent("n1")


@pytest.fixture
async def cluster() -> AsyncIterator[VirtualCluster]:
    async with virtual_api.cluster() as made:
        yield made


def rules(wanted: Iterable[Right]) -> list[dict[str, Any]]:
    """The rules of a role with just these rights; the same everywhere, whatever namespace they are for."""
    return [
        {
            "verbs": [one.verb],
            "resources": [one.resource],
            "apiGroups": [one.group],
            **({"resourceNames": [one.name]} if one.name else {}),
        }
        for one in wanted
    ]


async def granted(cluster: VirtualCluster, user: str, wanted: Iterable[Right]) -> Client:
    await access.grant(cluster.server, user, *rules(wanted))
    return cluster.acting_as(user)


@pytest.mark.parametrize(
    "used", [SCHEDULER, EXTENDER, SPOT, AGENT], ids=["scheduler", "extender", "spot controller", "agent"]
)
async def test_each_right_that_is_missing_is_named_and_no_other(
    cluster: VirtualCluster, used: tuple[Right, ...]
) -> None:
    assert await rights.missing(cluster.client, used) == []
    assert await rights.missing(cluster.acting_as("nobody"), used) == list(used)
    gone = used[:: max(1, len(used) // 5)]
    client = await granted(cluster, "almost", [one for one in used if one not in gone])
    assert await rights.missing(client, used) == list(gone)


async def test_a_missing_required_right_gives_a_one_line_error(cluster: VirtualCluster) -> None:
    client = await granted(cluster, "restricted", table("list,watch", "nodes"))
    with pytest.raises(MissingRights) as told:
        await rights.check(client, EXTENDER, part="extender", manifest="packaging/manifests/extender.yaml")
    assert str(told.value) == (
        "the extender lacks rights: restricted may not list, watch pods; create pods/binding;"
        " grant the roles of packaging/manifests/extender.yaml"
    )


async def test_what_can_be_done_without_is_given_back(cluster: VirtualCluster) -> None:
    client = await granted(cluster, "bound", [one for one in SPOT if not one.loses])
    insufficient = await rights.check(client, SPOT, part="spot controller", manifest="m")
    assert insufficient == {one for one in SPOT if one.loses}
    assert not insufficient.isdisjoint(notice_rights.EVENTS)


async def test_a_server_that_does_not_answer_such_questions_is_taken_as_it_is() -> None:
    class Mute:
        async def create(self, *_: object) -> None:
            raise errors.NotFound("there are no reviews here")

    assert await rights.missing(Mute(), AGENT) == []  # type: ignore[arg-type]  # all that is used of a client


def test_rights_are_described_in_words() -> None:
    wanted = [
        *table("get,list", "nodes"),
        *table("get,list", "pods"),
        *rights.leased("kube-system", "x"),
        Right(verb="patch", resource="pods/status"),
    ]
    assert rights.in_words(wanted) == (
        "get, list nodes, pods; create leases.coordination.k8s.io in kube-system;"
        " get, update leases.coordination.k8s.io x in kube-system; patch pods/status"
    )


def _grants(manifest: str) -> list[tuple[str, dict[str, Any]]]:
    """The rules of a packaged part, each with the namespace in which it holds; empty for everywhere."""
    found = []
    for document in yaml.safe_load_all((MANIFESTS / manifest).read_text()):
        if document["kind"] in {"ClusterRole", "Role"}:
            found += [(document["metadata"].get("namespace", ""), rule) for rule in document["rules"]]
    return found


def _holds(right: Right, grants: list[tuple[str, dict[str, Any]]]) -> bool:
    return any(
        namespace in {"", right.namespace}
        and right.verb in rule["verbs"]
        and right.group in rule["apiGroups"]
        and right.resource in rule["resources"]
        and (not rule.get("resourceNames") or right.name in rule["resourceNames"])
        for namespace, rule in grants
    )


@pytest.mark.parametrize(
    ("manifest", "used"),
    [
        ("scheduler.yaml", scheduler_rights.needed((PACKAGED, "rota-scheduler"))),
        ("extender.yaml", extender_rights.needed(binds=False)),
        ("spot-agent.yaml", notice_rights.needed_by_agent("n1")),
        (
            "spot-controller.yaml",
            (*spot_rights.needed(namespace=PACKAGED, dry_run=False), *notice_rights.EVENTS),
        ),
    ],
)
def test_the_packaged_roles_grant_what_parts_use(manifest: str, used: tuple[Right, ...]) -> None:
    grants = _grants(manifest)
    assert rights.in_words([right for right in used if not _holds(right, grants)]) == ""
