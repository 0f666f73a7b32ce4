"""No request of any user delays the response on another connection by more than 200 ms, and none gets 5xx."""

import collections
import contextlib
import http.client
import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from rota.kit import system
from rota.testing import readiness
from rota.testing.servers.rota import RotaServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
YAML = "application/yaml"
REVIEW = b"apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nspec: {}\n"


@pytest.fixture(scope="module")
def server() -> Iterator[RotaServer]:
    with RotaServer() as rota:
        yield rota


def send(
    server: RotaServer,
    method: str,
    path: str,
    body: bytes = b"",
    content_type: str = "application/json",
    accept: str = "",
) -> tuple[int, bytes]:
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=200, context=server.tls())
    headers = {"authorization": f"Bearer {server.token()}", "content-type": content_type}
    if accept:
        headers["accept"] = accept
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


@dataclass
class Attack:
    name: str
    method: str
    path: str
    body: bytes = field(repr=False)
    content_type: str = "application/json"
    #: The allowed status codes.
    codes: tuple[int, ...] = (400, 413, 422)


def pod(containers: int = 1, *, name: str = "attack", env: int = 0, labels: int = 0) -> bytes:
    container: dict[str, Any] = {"image": "i"}
    if env:
        container["env"] = [{"name": f"V{number}", "value": "x"} for number in range(env)]
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = {f"l{number}": "v" for number in range(labels)}
    listed = [{"name": f"c{number}", **container} for number in range(containers)]
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": listed}}
    ).encode()


def merge_bomb() -> bytes:
    lines = ["a0: &a0 {a: b, c: d, e: f, g: h}"]
    lines += [f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 8)}]}}" for level in range(1, 40)]
    return "\n".join(lines).encode()


def cron_job(schedule: str) -> bytes:
    template = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}
    spec = {"schedule": schedule, "jobTemplate": template}
    return json.dumps({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}).encode()


def json_patch(operations: list[dict[str, Any]]) -> bytes:
    return json.dumps(operations).encode()


MERGE, STRATEGIC, APPLY, JSON_PATCH = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/json-patch+json",
)
ATTACKS = [
    Attack("yaml list", "POST", REVIEWS, REVIEW + b"x: [" + b"a," * 150_000 + b"a]", YAML, (201, 400, 422)),
    Attack("long yaml list", "POST", REVIEWS, REVIEW + b"x: [" + b"a," * 1_500_000 + b"a]", YAML),
    Attack("deep yaml", "POST", REVIEWS, b"[" * 3_000_000, YAML),
    Attack(
        "yaml keys", "POST", REVIEWS, REVIEW + b"\n".join(b"k%d: v" % n for n in range(200_000)), YAML, (201, 400, 422)
    ),
    Attack("yaml merges", "POST", REVIEWS, REVIEW + merge_bomb(), YAML, (201, 400, 422)),
    Attack("yaml directives", "POST", REVIEWS, b"%TAG !a! tag:x:\n" * 150_000 + b"--- a", YAML),
    Attack(
        "yaml anchors",
        "POST",
        REVIEWS,
        REVIEW + b"x:\n" + b"".join(b"- &a%d x\n" % n for n in range(150_000)),
        YAML,
        (201, 400, 422),
    ),
    Attack("json list", "POST", REVIEWS, b'{"spec":{},"x":[' + b"1," * 1_500_000 + b"1]}", codes=(201, 400, 422)),
    Attack("json keys", "POST", REVIEWS, b'{"x":"' + b"\\u0041" * 500_000 + b'"}', codes=(201, 400, 422)),
    Attack("deep json", "POST", REVIEWS, b'{"x":' * 500_000 + b"1" + b"}" * 500_000),
    Attack(
        "repeated json keys", "POST", REVIEWS, b'{"spec":{},' + b'"a":1,' * 450_000 + b'"b":1}', codes=(201, 400, 422)
    ),
    Attack("20,000 containers", "POST", PODS, pod(20_000)),
    Attack("70,000 containers", "POST", PODS, pod(70_000)),
    Attack("60,000 variables", "POST", PODS, pod(env=60_000), codes=(201, 413, 422)),
    Attack("100,000 labels", "POST", PODS, pod(labels=100_000), codes=(413, 422)),
    Attack("wrong labels", "POST", PODS, pod(labels=60_000).replace(b': "v"', b': "-"'), codes=(413, 422)),
    Attack("6,000 containers", "POST", PODS, pod(6_000), codes=(201, 413)),
    Attack(
        "many mistakes",
        "POST",
        PODS,
        pod(6_000).replace(b'"image"', b'"stdinOnce": true, "command"'),
        codes=(400, 413, 422),
    ),
    Attack("wrong names", "POST", PODS, pod(6_000).replace(b'"c', b'"-'), codes=(400, 413, 422)),
    Attack("long schedule", "POST", CRON_JOBS, cron_job("0" + ",0" * 500_000 + " * * * *")),
    Attack("unknown fields", "POST", PODS, pod(60_000).replace(b'"image"', b'"imagine"')),
    Attack("protobuf", "POST", PODS, b"k8s\x00" + b"\x0a\x00" * 1_500_000, "application/vnd.kubernetes.protobuf"),
    Attack("delete options", "DELETE", f"{PODS}/none", b"x: [" + b"a," * 240_000 + b"a]", YAML, (400, 404)),
    Attack("apply", "PATCH", f"{MAPS}/a?fieldManager=m", b"data: [" + b"a," * 240_000 + b"a]", APPLY, (400, 422)),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_a_body_does_not_delay_other_requests(server: RotaServer, attack: Attack) -> None:
    answers: list[tuple[int, bytes]] = []
    worst_s = readiness.own_worst_s(
        lambda: answers.append(send(server, attack.method, attack.path, attack.body, attack.content_type)), server
    )
    assert answers[0][0] in attack.codes, answers[0][1][:500]
    assert worst_s < readiness.BOUND_S


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (
            STRATEGIC,
            json.dumps({"spec": {"containers": [{"name": f"c{n}", "image": "j"} for n in range(3000)]}}).encode(),
        ),
        (
            STRATEGIC,
            json.dumps({"spec": {"containers": [{"name": f"n{n}", "image": "j"} for n in range(30_000)]}}).encode(),
        ),
        (
            MERGE,
            json.dumps({"spec": {"containers": [{"name": f"n{n}", "image": "j"} for n in range(30_000)]}}).encode(),
        ),
        (JSON_PATCH, json_patch([{"op": "copy", "from": "/spec", "path": "/metadata/x"}] * 10_000)),
        (JSON_PATCH, json_patch([{"op": "test", "path": "/spec/containers/2999/name", "value": "c2999"}] * 9_000)),
        (
            APPLY,
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "large"},
                    "spec": {"containers": [{"name": f"c{n}", "image": "i"} for n in range(3000)]},
                }
            ).encode(),
        ),
    ],
    ids=["strategic", "long strategic", "merge", "json copies", "json tests", "apply"],
)
def test_a_patch_of_a_large_object_does_not_delay_other_requests(
    server: RotaServer, content_type: str, body: bytes
) -> None:
    code, said = send(server, "POST", PODS, pod(3000, name="large"))
    assert code in {201, 409}, said[:500]
    answers: list[tuple[int, bytes]] = []
    path = f"{PODS}/large?fieldManager=attack&force=true" if content_type == APPLY else f"{PODS}/large"
    worst_s = readiness.own_worst_s(lambda: answers.append(send(server, "PATCH", path, body, content_type)), server)
    assert answers[0][0] in {200, 400, 413, 422}, answers[0][1][:500]
    assert worst_s < readiness.BOUND_S


@pytest.mark.parametrize("accept", ["application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io", ""])
def test_a_large_response_does_not_delay_other_requests(server: RotaServer, accept: str) -> None:
    for number in range(8):
        send(server, "POST", PODS, pod(2000, name=f"answer-{number}"))
    answers: list[tuple[int, bytes]] = []
    worst_s = readiness.own_worst_s(lambda: answers.append(send(server, "GET", PODS, accept=accept)), server)
    assert answers[0][0] == 200
    assert worst_s < readiness.BOUND_S


def flood(server: RotaServer, seconds: float) -> collections.Counter[int]:
    """Guessed tokens on eight connections, as fast as they are answered; how often which status code came."""
    codes: collections.Counter[int] = collections.Counter()
    clock = system.SystemClock()
    until = clock.monotonic() + seconds

    # `tls` writes the certificate to a file first, so it is called before there are threads.
    tls = server.tls()

    def guess(number: int) -> None:
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=tls)
        with contextlib.closing(connection):
            for one in itertools.count():
                if clock.monotonic() > until:
                    return
                # each has the form of a join token, so that verifying it reads the store
                token = f"{number:02d}{one % 10_000:04d}.0123456789abcdef"
                connection.request("GET", PODS, headers={"authorization": f"Bearer {token}"})
                answer = connection.getresponse()
                answer.read()
                codes[answer.status] += 1

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return codes


def test_a_flood_of_bad_tokens_does_not_delay_other_requests(server: RotaServer) -> None:
    assert send(server, "GET", MAPS)[0] == 200
    floods: list[collections.Counter[int]] = []
    worst_s = readiness.own_worst_s(lambda: floods.append(flood(server, 4.0)), server)
    (codes,) = floods
    assert set(codes) == {401, 429}, codes
    assert codes[429] > codes[401], f"most are refused without a look at the store: {codes}"
    assert send(server, "GET", MAPS)[0] == 200, "a token that was valid before is not counted with the guesses"
    assert worst_s < readiness.BOUND_S


def test_defaults_do_not_multiply(server: RotaServer) -> None:
    item = {"type": "object", "properties": {"filled": {"type": "string", "default": "x" * 20_000}}}
    schema = {"type": "object", "properties": {"items": {"type": "array", "items": item}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    assert send(server, "POST", DEFINITIONS, json.dumps(definition).encode())[0] == 201
    thing: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "items": [{}]}
    while send(server, "POST", THINGS, json.dumps(thing).encode())[0] != 201:
        pass  # until the kind is served
    thing = {**thing, "metadata": {"name": "b"}, "items": [{}] * 20_000}
    answers: list[tuple[int, bytes]] = []
    worst_s = readiness.own_worst_s(
        lambda: answers.append(send(server, "POST", THINGS, json.dumps(thing).encode())), server
    )
    assert (answers[0][0], b"defaults" in answers[0][1]) == (413, True)
    assert worst_s < readiness.BOUND_S
