"""The protocol over HTTP, against a server that answers as kube-scheduler's extenders do."""

import asyncio
import datetime as dt
import ipaddress
import json
import ssl
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.scheduler.extenders.conftest import Connect, Farm, HttpExtender

from rota.scheduler.config.durations import Duration
from rota.scheduler.config.wire import Extender as Settings
from rota.scheduler.config.wire import ExtenderManagedResource, ExtenderTLSConfig
from rota.scheduler.extenders.extender import ExchangeError
from rota.scheduler.extenders.extender_interface import ExtenderError
from rota.scheduler.extenders.http import HttpExchange, TlsError
from rota.scheduler.preemption.victims import Candidate
from rota.testing import clusters

POD = clusters.make_pod("web")


async def test_whole_nodes_are_sent_to_an_extender_without_a_cache(
    server: HttpExtender, connect: Connect, farm: Farm
) -> None:
    server.answers["filter"] = lambda asked: {
        "Nodes": {"metadata": {}, "items": [asked["Nodes"]["items"][1]]},
        "NodeNames": None,
        "FailedNodes": {"n1": "too old"},
        "FailedAndUnresolvableNodes": {"n3": "wrong site"},
        "Error": "",
    }
    verdict = await connect(filter_verb="filter").filter(POD, ["n1", "n2", "n3"])
    assert verdict.feasible == ("n2",)
    assert verdict.failed == {"n1": "too old"}
    assert verdict.unresolvable == {"n3": "wrong site"}
    ((verb, asked),) = server.requests
    assert verb == "filter"
    assert asked == {
        "Pod": POD,
        "Nodes": {"metadata": {}, "items": list(farm.nodes.values())},
        "NodeNames": None,
    }


async def test_nodes_may_be_given_as_they_came(server: HttpExtender, connect: Connect, farm: Farm) -> None:
    def raw(name: str) -> msgspec.Raw:
        return msgspec.Raw(json.dumps({"metadata": {"name": name}, "odd": [1, {"a": None}]}).encode())

    farm.node = raw  # type: ignore[assignment,method-assign]
    server.answers["filter"] = lambda asked: {"Nodes": asked["Nodes"]}
    verdict = await connect(filter_verb="filter").filter(POD, ["n1", "n2"])
    assert verdict.feasible == ("n1", "n2")
    assert server.requests[0][1]["Nodes"]["items"][1] == {"metadata": {"name": "n2"}, "odd": [1, {"a": None}]}


async def test_only_names_are_sent_to_an_extender_with_a_cache(server: HttpExtender, connect: Connect) -> None:
    server.answers["filter"] = lambda asked: {"NodeNames": ["n2", "n1"]}
    extender = connect(filter_verb="filter", node_cache_capable=True)
    verdict = await extender.filter(POD, ["n1", "n2"])
    assert verdict.feasible == ("n1", "n2")
    assert server.requests == [("filter", {"Pod": POD, "Nodes": None, "NodeNames": ["n1", "n2"]})]


async def test_keys_are_read_in_any_case_as_go_does(server: HttpExtender, connect: Connect) -> None:
    server.answers["filter"] = lambda asked: {"nodenames": ["n1"], "failednodes": {"n2": "no"}}
    verdict = await connect(filter_verb="filter", node_cache_capable=True).filter(POD, ["n1", "n2"])
    assert verdict.feasible == ("n1",)
    assert verdict.failed == {"n2": "no"}


async def test_an_extender_with_a_cache_may_answer_with_nodes(server: HttpExtender, connect: Connect) -> None:
    server.answers["filter"] = lambda asked: {"Nodes": {"items": [{"metadata": {"name": "n2"}}]}}
    verdict = await connect(filter_verb="filter", node_cache_capable=True).filter(POD, ["n1", "n2"])
    assert verdict.feasible == ("n2",)


async def test_ratings_come_by_host(server: HttpExtender, connect: Connect) -> None:
    server.answers["rate"] = lambda asked: [{"Host": "n1", "Score": 10}, {"Host": "n2", "Score": 3}]
    extender = connect(prioritize_verb="rate", weight=2)
    assert await extender.prioritize(POD, ["n1", "n2"]) == {"n1": 10, "n2": 3}


async def test_victims_go_as_uids_to_an_extender_with_a_cache(
    server: HttpExtender, connect: Connect, farm: Farm
) -> None:
    server.answers["preempt"] = lambda asked: {
        "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-b"}], "NumPDBViolations": 1}}
    }
    here, there = farm.cluster.by_name["n1"], farm.cluster.by_name["n2"]
    candidates = [Candidate("n1", tuple(here.pods.values()), 1), Candidate("n2", tuple(there.pods.values()), 0)]
    chosen = await connect(preempt_verb="preempt", node_cache_capable=True).preempt(POD, candidates)
    assert [(each.node_name, [pod.uid for pod in each.victims], each.violations) for each in chosen] == [
        ("n1", ["uid-b"], 1)
    ]
    ((_, asked),) = server.requests
    assert asked == {
        "Pod": POD,
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {
            "n1": {"Pods": [{"UID": "uid-a"}, {"UID": "uid-b"}], "NumPDBViolations": 1},
            "n2": {"Pods": [{"UID": "uid-c"}], "NumPDBViolations": 0},
        },
    }


async def test_whole_victims_go_to_an_extender_without_a_cache(
    server: HttpExtender, connect: Connect, farm: Farm
) -> None:
    server.answers["preempt"] = lambda asked: {"NodeNameToMetaVictims": {}}
    candidate = Candidate("n2", tuple(farm.cluster.by_name["n2"].pods.values()), 0)
    assert await connect(preempt_verb="preempt").preempt(POD, [candidate]) == []
    ((_, asked),) = server.requests
    assert asked["NodeNameToVictims"] == {"n2": {"Pods": [farm.pods["uid-c"]], "NumPDBViolations": 0}}
    assert asked["NodeNameToMetaVictims"] is None


@pytest.mark.parametrize(
    ("node", "uid", "complaint"),
    [("n9", "uid-a", "n9, which is no node"), ("n2", "uid-a", "evict pod uid-a from node n2, where it is not")],
)
async def test_victims_that_are_not_there_are_an_error(
    server: HttpExtender, connect: Connect, *, node: str, uid: str, complaint: str
) -> None:
    server.answers["preempt"] = lambda asked: {"NodeNameToMetaVictims": {node: {"Pods": [{"UID": uid}]}}}
    with pytest.raises(ExtenderError, match=complaint):
        await connect(preempt_verb="preempt").preempt(POD, [])


async def test_a_binding_names_the_pod_and_the_node(server: HttpExtender, connect: Connect) -> None:
    server.answers["bind"] = lambda asked: {"Error": ""}
    await connect(bind_verb="bind").bind(POD, "n1")
    expected = {"PodName": "web", "PodNamespace": "default", "PodUID": "uid-web", "Node": "n1"}
    assert server.requests == [("bind", expected)]


async def test_an_error_in_an_answer_is_an_error_of_that_extender(server: HttpExtender, connect: Connect) -> None:
    server.answers["bind"] = server.answers["filter"] = lambda asked: {"Error": "the rack is on fire"}
    extender = connect(bind_verb="bind", filter_verb="filter")
    for call in (extender.bind(POD, "n1"), extender.filter(POD, ["n1"])):
        with pytest.raises(ExtenderError, match="the rack is on fire") as caught:
            await call
        assert server.url in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ([], "the answer is not an object"),
        ({"NodeNames": "n1"}, "NodeNames is not a list"),
        ({"NodeNames": [1]}, "NodeNames is not a string"),
        ({"NodeNames": ["n9"]}, "not asked about: n9"),
        ({"NodeNames": [], "FailedNodes": ["n1"]}, "FailedNodes is not an object"),
        ({"NodeNames": [], "FailedNodes": {"n1": 4}}, "FailedNodes.n1 is not a string"),
        ({"Nodes": {"items": [{}]}}, r"Nodes.items\[0\].metadata is missing"),
        (web.Response(body=b"<html>"), "the answer is not JSON"),
        (web.Response(body=b'{"Error": "\xff"}'), "the answer is not JSON"),
        (web.Response(status=500, body=b"{}"), "filter: HTTP status 500"),
        (web.Response(status=302, headers={"Location": "/elsewhere"}), "filter: HTTP status 302"),
    ],
)
async def test_a_malformed_answer_is_an_error_that_names_the_extender(
    server: HttpExtender, connect: Connect, *, answer: Any, complaint: str
) -> None:
    server.answers["filter"] = lambda asked: answer
    with pytest.raises(ExtenderError, match=complaint) as caught:
        await connect(filter_verb="filter", node_cache_capable=True).filter(POD, ["n1"])
    assert str(caught.value).startswith(f"extender {server.url}: ")


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({}, "the answer is not a list"),
        ([{"Host": "n1"}], r"\[0\].Score is missing"),
        ([{"Host": "n1", "Score": 1.5}], r"\[0\].Score is not an integer"),
        ([{"Host": "n1", "Score": True}], r"\[0\].Score is not an integer"),
        ([{"Host": "n1", "Score": 2**62}], "scores are 0 to 10"),
        (["n1"], r"\[0\] is not an object"),
    ],
)
async def test_malformed_ratings_are_refused(
    server: HttpExtender, connect: Connect, *, answer: Any, complaint: str
) -> None:
    server.answers["rate"] = lambda asked: answer
    with pytest.raises(ExtenderError, match=complaint):
        await connect(prioritize_verb="rate", weight=1).prioritize(POD, ["n1"])


async def test_a_slow_extender_is_cut_off_by_its_deadline(server: HttpExtender, connect: Connect) -> None:
    never = asyncio.Event()
    server.answers["filter"] = lambda asked: never.wait()
    with pytest.raises(ExtenderError, match=r"filter: no answer within 0.05 s"):
        await connect(filter_verb="filter", timeout_s=0.05).filter(POD, ["n1"])
    never.set()


async def test_an_extender_that_is_not_there_is_named(connect: Connect) -> None:
    with pytest.raises(ExtenderError, match=r"extender http://127\.0\.0\.1:1: filter: ClientConnectorError"):
        await connect(filter_verb="filter", url="http://127.0.0.1:1").filter(POD, ["n1"])


def _resources(section: str, **amounts: str) -> dict[str, Any]:
    return {"containers": [], section: [{"name": "c", "resources": {"limits": dict(amounts)}}]}


async def test_an_extender_of_some_resources_is_asked_only_about_pods_that_name_one(connect: Connect) -> None:
    managed = ExtenderManagedResource(name="example.com/gpu")
    picky, any_pod = connect(managed_resources=(managed,)), connect()
    wants = {"metadata": {"name": "p"}, "spec": _resources("initContainers", **{"example.com/gpu": "1"})}
    assert picky.interested(wants)
    assert not picky.interested(POD)
    assert any_pod.interested(POD)


@pytest.mark.slow
async def test_tls_is_checked_against_the_given_authority(tmp_path: Path) -> None:
    certificate, key = _certificate(tmp_path)
    server = HttpExtender()
    server.answers["bind"] = lambda asked: {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with server.serving(context):

        async def ask(**settings: Any) -> bytes:
            exchange = HttpExchange(Settings(url_prefix=server.url, http_timeout=Duration(seconds=5), **settings))
            try:
                return await exchange.ask("bind", b"{}")
            finally:
                await exchange.close()

        trusting = ExtenderTLSConfig(ca_file=str(certificate))
        assert await ask(enable_https=True, tls_config=trusting) == b"{}"
        assert await ask(tls_config=ExtenderTLSConfig(ca_data=certificate.read_bytes())) == b"{}"
        # As in kube-scheduler: without an authority nothing is checked.
        assert await ask(enable_https=True) == b"{}"
        assert await ask(enable_https=True, tls_config=ExtenderTLSConfig(insecure=True)) == b"{}"
        with pytest.raises(ExchangeError, match="certificate"):
            await ask()
        with pytest.raises(ExchangeError, match="certificate"):
            await ask(tls_config=ExtenderTLSConfig(ca_file=str(certificate), server_name="elsewhere.example"))


@pytest.mark.slow
async def test_a_client_certificate_is_sent_on_request(tmp_path: Path) -> None:
    certificate, key = _certificate(tmp_path)
    server = HttpExtender()
    server.answers["bind"] = lambda asked: {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    files = ExtenderTLSConfig(ca_file=str(certificate), cert_file=str(certificate), key_file=str(key))
    data = ExtenderTLSConfig(
        ca_data=certificate.read_bytes(), cert_data=certificate.read_bytes(), key_data=key.read_bytes()
    )
    async with server.serving(context):
        for tls, known in ((files, True), (data, True), (ExtenderTLSConfig(ca_file=str(certificate)), False)):
            settings = Settings(
                url_prefix=server.url, enable_https=True, tls_config=tls, http_timeout=Duration(seconds=5)
            )
            exchange = HttpExchange(settings)
            try:
                if known:
                    assert await exchange.ask("bind", b"{}") == b"{}"
                else:
                    with pytest.raises(ExchangeError):
                        await exchange.ask("bind", b"{}")
            finally:
                await exchange.close()


def test_tls_material_that_cannot_be_read_is_named() -> None:
    tls = ExtenderTLSConfig(ca_file="/nonexistent/ca.pem")
    with pytest.raises(TlsError, match=r"extender https://gpu\.example.*nonexistent/ca\.pem"):
        HttpExchange(Settings(url_prefix="https://gpu.example", enable_https=True, tls_config=tls))


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "extender")])
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "tls.crt", folder / "tls.key"
    files[0].write_bytes(built.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files
