"""Random bodies for every kind, by every verb and patch type: none gets 5xx, delays others or uses much memory.

What is asserted of delays: while the bodies are sent, `/readyz` is asked on another connection, of the server and by
turns of a second one that is left in peace. 99 of 100 answers of the attacked server come within 200 ms of what 99 of
100 answers of the idle one take, and the slowest within 200 ms of three times the idle one's slowest. So on a quiet
machine, where an idle server answers within milliseconds, the bound is 200 ms; where other programs keep the processors
busy, it grows by what they cost the idle server at that time, and by nothing else.

`make test` sends some hundred from a fixed seed; `ROTA_FUZZ_BODIES=10000 pytest --hypothesis-profile=random` many.
"""

import http.client
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from rota.api import scheme
from rota.api.kinds import ResourceType
from rota.testing import readiness, request_bodies
from rota.testing.servers.rota import RotaServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

BODIES: Final = int(os.environ.get("ROTA_FUZZ_BODIES", "300"))
#: How much the server may grow: its caches fill up, and the objects that were created stay.
_MOST_GROWTH_KIB: Final = 300 * 1024
#: Kinds of which objects are really written, so that there is something to change; of others in a dry run only.
_WRITTEN: Final = frozenset({"pods", "configmaps", "secrets", "services", "deployments", "jobs", "cronjobs", "leases"})
_PATCHES: Final = {
    "application/json-patch+json": "json patch",
    "application/merge-patch+json": "json",
    "application/strategic-merge-patch+json": "json",
    "application/apply-patch+yaml": "yaml",
}
KINDS: Final = sorted(
    (one for one in scheme.builtin() if "create" in one.verbs), key=lambda one: (one.group, one.version, one.plural)
)


_TEMPLATE: Final = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
_LABELLED: Final = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
#: What changes are tried on, by path.
_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "/api/v1/namespaces/default/pods": _TEMPLATE,
    "/api/v1/namespaces/default/configmaps": {"data": {"a": "b"}},
    "/api/v1/namespaces/default/secrets": {"stringData": {"a": "b"}},
    "/api/v1/namespaces/default/services": {"spec": {"ports": [{"port": 80}]}},
    "/apis/apps/v1/namespaces/default/deployments": {
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": _LABELLED, "replicas": 0}
    },
    "/apis/batch/v1/namespaces/default/jobs": {"spec": {"template": _TEMPLATE, "suspend": True}},
    "/apis/batch/v1/namespaces/default/cronjobs": {
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": _TEMPLATE}}}
    },
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {"spec": {"holderIdentity": "a"}},
}


@some.composite
def requests(draw: some.DrawFn) -> tuple[str, str, str, bytes]:
    """Method, path, content type and body."""
    kind = draw(some.sampled_from(KINDS) | some.sampled_from([one for one in KINDS if one.plural in _WRITTEN]))
    root = "/api/v1" if not kind.group else f"/apis/{kind.group}/{kind.version}"
    path = f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
    name = draw(some.sampled_from(["fuzz-0", "fuzz-1", "fuzz-2"]))
    options = ["fieldManager=fuzz", f"fieldValidation={draw(some.sampled_from(['Strict', 'Warn', 'Ignore']))}"]
    if kind.plural not in _WRITTEN:
        options.append("dryRun=All")
    value = request_bodies.of_kind(kind.model, kind.api_version, kind.kind, name)
    part, ways = _part(draw, kind)
    way = draw(some.sampled_from(ways))
    if way == "patch":
        content_type = draw(some.sampled_from(sorted(_PATCHES)))
        if _PATCHES[content_type] == "json patch":
            body = draw(request_bodies.as_json(request_bodies.json_patches(value)))
        else:
            body = draw(request_bodies.as_json(value) | request_bodies.as_yaml(value))
        return "PATCH", f"{path}/{name}{part}?{'&'.join(options)}", content_type, body
    content_type, body = _encoded(draw, kind, value)
    if way == "create":
        return "POST", f"{path}{f'/{name}{part}' if part else ''}?{'&'.join(options)}", content_type, body
    if way == "delete":
        return "DELETE", f"{path}/{name}?dryRun=All", content_type, body
    return "PUT", f"{path}/{name}{part}?{'&'.join(options)}", content_type, body


def _part(draw: some.DrawFn, kind: ResourceType) -> tuple[str, list[str]]:
    """A subresource or none, and what can be done to it."""
    changed = [name for name in kind.subresources if name in {"status", "scale", "approval", "finalize", "resize"}]
    posted = [name for name in kind.subresources if name in {"binding", "eviction", "token"}]
    part = draw(some.sampled_from(["", "", "", *changed, *posted]))
    if not part:
        return "", ["create", "create", "update", "patch", "delete"]
    return f"/{part}", ["create"] if part in posted else ["update", "patch"]


def _encoded(draw: some.DrawFn, kind: ResourceType, value: some.SearchStrategy[Any]) -> tuple[str, bytes]:
    match draw(some.sampled_from(["json", "json", "yaml", "protobuf"])):
        case "json":
            return "application/json", draw(request_bodies.as_json(value))
        case "yaml":
            return "application/yaml", draw(request_bodies.as_yaml(value))
    return "application/vnd.kubernetes.protobuf", draw(request_bodies.as_protobuf(kind.api_version, kind.kind))


class Client:
    """One connection to the server."""

    def __init__(self, server: RotaServer) -> None:
        self._server: Final = server
        self._connection = self._connect()

    def send(self, method: str, path: str, content_type: str, body: bytes) -> tuple[int, bytes]:
        headers = {"authorization": f"Bearer {self._server.token()}", "content-type": content_type}
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        found = answer.status, answer.read()
        if answer.will_close:
            self._connection = self._connect()
        return found

    def close(self) -> None:
        self._connection.close()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._server.port, timeout=60, context=self._server.tls())


@pytest.fixture(scope="module")
def server() -> Iterator[RotaServer]:
    with RotaServer() as rota:
        yield rota


@pytest.fixture(scope="module")
def idle() -> Iterator[RotaServer]:
    with RotaServer() as rota:
        yield rota


def _resident_kib(server: RotaServer) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1))


# The examples are drawn inside of the test, so that pytest does not see it by itself: `make fuzz` selects by this mark.
@pytest.mark.hypothesis
def test_no_body_breaks_the_server(server: RotaServer, idle: RotaServer) -> None:
    client = Client(server)
    for path, example in _EXAMPLES.items():
        for name in ("fuzz-0", "fuzz-1"):
            body = json.dumps({**example, "metadata": {"name": name}}).encode()
            assert client.send("POST", path, "application/json", body)[0] == 201
    before_kib = _resident_kib(server)
    codes: dict[int, int] = {}

    @settings(max_examples=BODIES, suppress_health_check=list(HealthCheck))
    @given(requests())
    def attack(request: tuple[str, str, str, bytes]) -> None:
        code, said = client.send(*request)
        codes[code] = codes.get(code, 0) + 1
        assert code < 500, said
        assert _resident_kib(server) - before_kib < _MOST_GROWTH_KIB

    try:
        attacked, quiet = readiness.compared(attack, server, idle=idle)
    finally:
        client.close()
        sys.stderr.write(f"answers: {codes}, growth: {_resident_kib(server) - before_kib} KiB\n")
    sys.stderr.write(f"/readyz: {attacked}; of an idle server: {quiet}\n")
    assert attacked.p99_s < readiness.BOUND_S + quiet.p99_s
    assert attacked.worst_s < readiness.BOUND_S + 3 * quiet.worst_s
    assert {200, 201, 400, 422} <= codes.keys(), "the bodies are not what they should be"


def test_the_meter_tells_a_server_that_stalls_from_a_busy_machine(server: RotaServer, idle: RotaServer) -> None:
    def stall() -> None:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            threading.Event().wait(0.5)
        finally:
            os.kill(server.pid, signal.SIGCONT)

    attacked, quiet = readiness.compared(stall, server, idle=idle)
    assert attacked.worst_s > 0.4
    assert quiet.worst_s < attacked.worst_s
