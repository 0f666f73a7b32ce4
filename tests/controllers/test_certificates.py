"""Certificates by request: who gets one by itself, who has to wait, and who never does."""

import base64
import ipaddress
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import errors
from rota.client.verbs import Client
from rota.controllers import certificate_signer
from rota.controllers.certificates import REQUESTS, CertificateController
from rota.pki import certificates, keys, pinning, signing_requests
from rota.pki.authorities import Authority
from rota.pki.certificates import Facts, Names, Subject
from rota.testing.virtual_api import VirtualCluster

NODE = Subject(common_name="system:node:n1", organizations=("system:nodes",))
CLIENT_USAGES = ["digital signature", "client auth"]


@pytest.fixture
def authority(cluster: VirtualCluster) -> Authority:
    return Authority.create(now=cluster.clock.now())


@pytest.fixture(autouse=True)
async def controlling(cluster: VirtualCluster, authority: Authority) -> AsyncIterator[None]:
    controller = CertificateController(
        cluster.acting_as("rota:controller:certificates"), authority, clock=cluster.clock, rng=cluster.rng
    )
    async with cluster.running(controller.run):
        yield


@pytest.fixture
def newcomer(cluster: VirtualCluster) -> Client:
    return cluster.acting_as("system:bootstrap:abcdef", "system:bootstrappers")


@pytest.fixture
def worker(cluster: VirtualCluster) -> Client:
    return cluster.acting_as("system:node:n1", "system:nodes")


def request(
    subject: Subject = NODE,
    *,
    name: str = "r",
    signer: str = certificate_signer.WORKER_CLIENT,
    usages: list[str] | None = None,
    names: Names | None = None,
    key: keys.PrivateKey | None = None,
    **spec: Any,
) -> dict[str, Any]:
    pem = signing_requests.make(key or keys.generate(), subject, names=names)
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": signer,
            "usages": usages or CLIENT_USAGES,
            **spec,
        },
    }


async def settled(cluster: VirtualCluster, name: str = "r") -> Any:
    """The request after the controller had time to do what it wants to."""
    await cluster.clock.advance(5)
    return await cluster.client.get(REQUESTS, name)


def states(asked: Any) -> dict[str, str]:
    return {one["type"]: one.get("reason", "") for one in (asked.get("status") or {}).get("conditions") or ()}


def facts(asked: Any) -> Facts:
    pem = base64.b64decode(asked["status"]["certificate"])
    return certificates.facts(certificates.read_pem(pem, source="it"))


async def approve(cluster: VirtualCluster, name: str = "r", client: Client | None = None) -> None:
    asked = await cluster.client.get(REQUESTS, name)
    condition = {"type": "Approved", "status": "True", "reason": "ByHand"}
    approved = {**asked, "status": {"conditions": [condition]}}
    await (client or cluster.client).update(REQUESTS, approved, subresource="approval")


async def test_a_newcomer_with_a_join_token_gets_a_workers_certificate(
    cluster: VirtualCluster, newcomer: Client, authority: Authority
) -> None:
    await newcomer.create(REQUESTS, request())
    asked = await settled(cluster)
    assert states(asked) == {"Approved": "AutoApproved"}
    assert facts(asked).subject == NODE
    issued = certificates.read_pem(base64.b64decode(asked["status"]["certificate"]), source="it")
    issued.verify_directly_issued_by(certificates.read_pem(authority.certificate_pem, source="the root"))


NODES = ("", "v1", "nodes")


async def test_a_newcomer_does_not_get_the_name_of_a_worker_that_is_there(
    cluster: VirtualCluster, newcomer: Client
) -> None:
    await cluster.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    await newcomer.create(REQUESTS, request())
    asked = await settled(cluster)
    assert states(asked) == {"Denied": "NameTaken"}
    assert "certificate" not in asked["status"]
    assert "kubectl delete node n1" in asked["status"]["conditions"][0]["message"]


async def test_a_worker_whose_certificate_has_expired_shows_by_its_key_that_it_is_the_same(
    cluster: VirtualCluster, newcomer: Client
) -> None:
    key = keys.generate()
    annotations = {certificate_signer.KEY_ANNOTATION: pinning.pin_of_key(key.public_key())}
    metadata = {"name": "n1", "annotations": annotations}
    await cluster.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    await newcomer.create(REQUESTS, request(key=key))
    assert states(await settled(cluster)) == {"Approved": "AutoApproved"}


async def test_of_two_newcomers_with_one_name_the_first_gets_it(cluster: VirtualCluster, newcomer: Client) -> None:
    key = keys.generate()
    await newcomer.create(REQUESTS, request(key=key))
    assert states(await settled(cluster)) == {"Approved": "AutoApproved"}
    await newcomer.create(REQUESTS, request(name="second"))
    assert states(await settled(cluster, "second")) == {"Denied": "NameTaken"}
    await newcomer.create(REQUESTS, request(name="again", key=key))
    assert states(await settled(cluster, "again")) == {"Approved": "AutoApproved"}
    await cluster.clock.advance(120)  # it never came
    await newcomer.create(REQUESTS, request(name="late"))
    assert states(await settled(cluster, "late")) == {"Approved": "AutoApproved"}


async def test_a_workers_certificate_is_short(cluster: VirtualCluster, newcomer: Client) -> None:
    await newcomer.create(REQUESTS, request())
    found = facts(await settled(cluster))
    assert found.not_after - cluster.clock.now() <= 7 * 24 * 3600


async def test_a_worker_renews_its_own_certificate(cluster: VirtualCluster, worker: Client) -> None:
    await worker.create(REQUESTS, request())
    assert facts(await settled(cluster)).subject == NODE


async def test_a_worker_does_not_get_another_workers_certificate(cluster: VirtualCluster, worker: Client) -> None:
    other = Subject(common_name="system:node:n2", organizations=("system:nodes",))
    with pytest.raises(errors.Forbidden, match="can only create a node CSR with CN=system:node:n1"):
        await worker.create(REQUESTS, request(other))


async def test_the_administrator_of_a_cluster_is_no_worker(cluster: VirtualCluster) -> None:
    """Who may do everything may have a worker's certificate too, as upstream."""
    await cluster.client.create(REQUESTS, request())
    assert states(await settled(cluster)) == {"Approved": "AutoApproved"}


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(request(Subject(common_name="system:node:n1")), id="not of the workers' group"),
        pytest.param(
            request(Subject(common_name="system:node:n1", organizations=("system:nodes", "system:masters"))),
            id="of another group too",
        ),
        pytest.param(
            request(Subject(common_name="n1", organizations=("system:nodes",))), id="not named as workers are"
        ),
        pytest.param(
            request(Subject(common_name="system:node:", organizations=("system:nodes",))), id="a worker without a name"
        ),
        pytest.param(request(names=Names.of(["n1"])), id="with a host name"),
        pytest.param(request(usages=["digital signature", "server auth"]), id="for another purpose"),
        pytest.param(request(usages=[*CLIENT_USAGES, "server auth"]), id="for more than its purpose"),
        pytest.param(request(signer=certificate_signer.CLIENT), id="of another signer"),
        pytest.param(
            request(
                signer=certificate_signer.WORKER_SERVING,
                usages=["digital signature", "server auth"],
                names=Names.of(["n1"]),
            ),
            id="for a server",
        ),
        pytest.param(request(signer="example.com/own"), id="of a signer that is not ours"),
    ],
)
async def test_what_is_not_a_workers_request_waits_for_a_person(
    asked: dict[str, Any], cluster: VirtualCluster, newcomer: Client
) -> None:
    await newcomer.create(REQUESTS, asked)
    assert (await settled(cluster))["status"] == {}


async def test_a_person_can_approve_a_clients_request(cluster: VirtualCluster) -> None:
    ann = Subject(common_name="ann", organizations=("dev",))
    await cluster.client.create(REQUESTS, request(ann, signer=certificate_signer.CLIENT, expirationSeconds=3600))
    await approve(cluster)
    found = facts(await settled(cluster))
    assert found.subject == ann
    assert found.not_after <= cluster.clock.now() + 3600


async def test_a_person_can_approve_a_servers_request(cluster: VirtualCluster, worker: Client) -> None:
    asked = request(
        signer=certificate_signer.WORKER_SERVING,
        usages=["digital signature", "server auth"],
        names=Names.of(["n1", "10.0.0.1"]),
    )
    await worker.create(REQUESTS, asked)
    await approve(cluster)
    issued = base64.b64decode((await settled(cluster))["status"]["certificate"])
    assert b"CERTIFICATE" in issued


async def test_what_is_approved_but_not_right_fails(cluster: VirtualCluster) -> None:
    await cluster.client.create(REQUESTS, request(Subject(common_name="n1"), signer=certificate_signer.WORKER_CLIENT))
    await approve(cluster)
    asked = await settled(cluster)
    assert states(asked) == {"Approved": "ByHand", "Failed": "SignerValidationFailure"}
    assert "certificate" not in asked["status"]


async def test_what_is_denied_stays_denied(cluster: VirtualCluster) -> None:
    asked = await cluster.client.create(REQUESTS, request(Subject(common_name="ann"), signer=certificate_signer.CLIENT))
    denied = {**asked, "status": {"conditions": [{"type": "Denied", "status": "True"}]}}
    await cluster.client.update(REQUESTS, denied, subresource="approval")
    assert set(states(await settled(cluster))) == {"Denied"}
    with pytest.raises(errors.Invalid, match="may not remove"):
        await approve(cluster)


async def test_settled_requests_go_after_an_hour_and_pending_ones_after_a_day(
    cluster: VirtualCluster, newcomer: Client
) -> None:
    await newcomer.create(REQUESTS, request(name="settled"))
    await newcomer.create(REQUESTS, request(name="pending", signer="example.com/own"))
    await settled(cluster, "settled")
    await later(cluster, 3601, "settled", "pending")
    await cluster.gone(REQUESTS, "settled")
    assert await cluster.exists(REQUESTS, "pending")
    await later(cluster, 23 * 3600, "pending")
    await cluster.gone(REQUESTS, "pending")


async def later(cluster: VirtualCluster, seconds: float, *names: str) -> None:
    """The wall clock jumps, and the requests are looked at again."""
    cluster.clock.step_wall(seconds)
    for name in names:
        await cluster.client.patch(REQUESTS, name, {"metadata": {"labels": {"looked": f"at-{seconds:.0f}"}}})


async def test_a_request_that_was_approved_late_is_signed_all_the_same(cluster: VirtualCluster) -> None:
    await cluster.client.create(REQUESTS, request(Subject(common_name="ann"), signer=certificate_signer.CLIENT))
    cluster.clock.step_wall(5 * 3600)
    await approve(cluster)
    assert facts(await settled(cluster)).subject.common_name == "ann"


# The rules of the kind itself


async def test_a_request_names_its_real_sender(cluster: VirtualCluster, newcomer: Client) -> None:
    lying = request(username="system:admin", uid="0", groups=["system:masters"], extra={"a": ["b"]})
    asked = await newcomer.create(REQUESTS, lying)
    assert asked["spec"]["username"] == "system:bootstrap:abcdef"
    assert asked["spec"]["groups"] == ["system:bootstrappers", "system:authenticated"]
    assert not asked["spec"].keys() & {"uid", "extra"}


async def test_a_requests_content_never_changes(cluster: VirtualCluster) -> None:
    asked = await cluster.client.create(REQUESTS, request(Subject(common_name="ann"), signer=certificate_signer.CLIENT))
    other = request(Subject(common_name="eve"), signer=certificate_signer.CLIENT)
    for door in ("", "status", "approval"):
        current = await cluster.client.get(REQUESTS, "r")
        changed = await cluster.client.update(REQUESTS, {**current, "spec": other["spec"]}, subresource=door)
        assert changed["spec"] == asked["spec"]


async def test_approval_is_possible_through_its_subresource_only(cluster: VirtualCluster) -> None:
    asked = await cluster.client.create(REQUESTS, request(Subject(common_name="ann"), signer=certificate_signer.CLIENT))
    approved = {**asked, "status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    assert (await cluster.client.update(REQUESTS, approved))["status"] == {}
    approved["metadata"] = (await cluster.client.get(REQUESTS, "r"))["metadata"]
    with pytest.raises(errors.Invalid, match="may not add a condition"):
        await cluster.client.update(REQUESTS, approved, subresource="status")


async def test_approval_without_the_right_for_the_signer_is_refused(cluster: VirtualCluster) -> None:
    await cluster.client.create(REQUESTS, request(Subject(common_name="ann"), signer=certificate_signer.CLIENT))
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "half-approver"},
        "rules": [
            {
                "apiGroups": ["certificates.k8s.io"],
                "resources": ["certificatesigningrequests", "certificatesigningrequests/approval"],
                "verbs": ["get", "update"],
            }
        ],
    }
    await cluster.client.create(("rbac.authorization.k8s.io", "v1", "clusterroles"), role)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "half-approver"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "half-approver"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}],
    }
    await cluster.client.create(("rbac.authorization.k8s.io", "v1", "clusterrolebindings"), binding)
    with pytest.raises(errors.Forbidden, match=r"not permitted to approve requests with signerName"):
        await approve(cluster, client=cluster.acting_as("eve"))


async def test_a_request_for_the_masters_group_is_refused(cluster: VirtualCluster, newcomer: Client) -> None:
    masters = Subject(common_name="eve", organizations=("system:masters",))
    with pytest.raises(errors.Forbidden, match="system:masters group is not allowed"):
        await newcomer.create(REQUESTS, request(masters, signer=certificate_signer.CLIENT))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"request": ""}, "PEM block type must be CERTIFICATE REQUEST"),
        ({"request": "AAAA"}, "PEM block type must be CERTIFICATE REQUEST"),
        ({"signerName": ""}, "spec.signerName: Required value"),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "the legacy signerName is not allowed"),
        ({"signerName": "no-domain"}, "must be a fully qualified domain and path"),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["flying"]}, r"spec.usages\[0\]: Unsupported value"),
        ({"usages": ["client auth", "client auth"]}, r"spec.usages\[1\]: Duplicate value"),
        ({"expirationSeconds": 599}, "may not specify a duration less than 600 seconds"),
    ],
)
async def test_a_request_that_is_not_whole_is_refused(
    changes: dict[str, Any], words: str, cluster: VirtualCluster
) -> None:
    asked = request()
    asked["spec"] |= changes
    with pytest.raises(errors.Invalid, match=words):
        await cluster.client.create(REQUESTS, asked)


def serving(*addresses: str, dns: tuple[str, ...] = ()) -> signing_requests.Request:
    names = Names(dns=dns, addresses=tuple(map(ipaddress.ip_address, addresses)))
    return signing_requests.read(signing_requests.make(keys.generate(), NODE, names=names))


@pytest.mark.parametrize(
    ("wanted", "seen", "granted"),
    [
        (serving("10.0.0.5"), ["10.0.0.5"], True),
        (serving("10.0.0.5"), ["::ffff:10.0.0.5"], True),
        (serving("fd00::5"), ["fd00:0:0::5"], True),
        (serving("10.0.0.5"), ["10.0.0.6"], False),
        (serving("10.0.0.5", "10.0.0.6"), ["10.0.0.5"], False),
        (serving("10.0.0.5", dns=("n1",)), ["10.0.0.5"], False),
        (serving(dns=("n1",)), ["10.0.0.5"], False),
        (serving("10.0.0.5"), [], False),
        (serving("10.0.0.9"), ["10.0.0.9"], False),
    ],
)
def test_an_endpoint_gets_the_address_that_its_worker_is_seen_at(
    wanted: signing_requests.Request, seen: list[str], granted: bool
) -> None:
    """10.0.0.9 is what spreads calls over the masters: whoever is behind it seems to be there."""
    assert certificate_signer.may_serve(wanted, seen, reserved=[ipaddress.ip_address("10.0.0.9")]) is granted


async def test_an_endpoint_whose_worker_was_seen_nowhere_waits_for_a_person(
    cluster: VirtualCluster, worker: Client
) -> None:
    names = Names(addresses=(ipaddress.ip_address("10.0.0.5"),))
    usages = ["digital signature", "server auth"]
    extra = {"rota.dev/client-address": ["10.0.0.5"]}
    await worker.create(
        REQUESTS, request(signer=certificate_signer.WORKER_SERVING, usages=usages, names=names, extra=extra)
    )
    assert states(await settled(cluster)) == {}
