"""Usual objects with one mistake each: accepted, or refused by name, and never a 5xx."""

import copy
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.testing import manifests
from rota.testing.live import LiveServer

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "manifests"
EXAMPLES: list[Any] = [one for path in sorted(FOLDER.glob("*.yaml")) for one in yaml.safe_load_all(path.read_text())]
EXAMPLES += [manifests.node("target"), manifests.widgets()]
MERGE = "application/merge-patch+json"
WRONG: list[Any] = [
    None,
    "",
    "x",
    " ",
    "-1",
    "1e400",
    0,
    -1,
    2**63,
    1.5,
    True,
    [],
    [None],
    [{}],
    {},
    {"": ""},
    {"a": None},
]


def _paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of everything in a value but its type."""
    if above:
        yield above
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inside:
        if above or name not in {"apiVersion", "kind"}:
            yield from _paths(part, (*above, name))


PLACES = [list(_paths(one)) for one in EXAMPLES]


@st.composite
def _almost_right(draw: st.DrawFn) -> Any:
    """An example in which something is missing or replaced."""
    which = draw(st.integers(0, len(EXAMPLES) - 1))
    obj = copy.deepcopy(EXAMPLES[which])
    *way, last = draw(st.sampled_from(PLACES[which]))
    part = obj
    for step in way:
        part = part[step]
    if draw(st.booleans()):
        del part[last]
    else:
        part[last] = copy.deepcopy(draw(st.sampled_from(WRONG)))
    return which, obj


class Server:
    """One connection and the places of the examples' collections and objects."""

    def __init__(self, live: LiveServer) -> None:
        self._connection = http.client.HTTPConnection(live.host, live.port, timeout=20)
        self.collections: list[str] = []
        self.objects: list[str] = []
        namespace = live.namespace()
        for one in EXAMPLES:
            version = one["apiVersion"]
            base = f"/apis/{version}" if "/" in version else f"/api/{version}"
            listed = live.request("GET", base)[1]["resources"]
            kind = next(each for each in listed if each["kind"] == one["kind"] and "/" not in each["name"])
            within = f"/namespaces/{namespace}" if kind["namespaced"] else ""
            self.collections.append(f"{base}{within}/{kind['name']}")
            self.objects.append(f"{self.collections[-1]}/{one['metadata']['name']}")
            live.create(self.collections[-1], one)

    def ask(self, method: str, path: str, body: Any, content_type: str = "application/json") -> tuple[int, Any]:
        self._connection.request(method, path, json.dumps(body), {"content-type": content_type})
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def server(live: LiveServer) -> Iterator[Server]:
    server = Server(live)
    yield server
    server.close()


@settings(max_examples=300, deadline=None)
@given(wrong=_almost_right(), dry=st.booleans())
def test_every_way_to_write_them_is_answered(server: Server, wrong: Any, dry: bool) -> None:
    which, obj = wrong
    query = "?dryRun=All" if dry else ""
    for method, path, content_type in (
        ("POST", server.collections[which], "application/json"),
        ("PUT", server.objects[which], "application/json"),
        ("PUT", f"{server.objects[which]}/status", "application/json"),
        ("PATCH", server.objects[which], MERGE),
        ("PATCH", server.objects[which], "application/strategic-merge-patch+json"),
    ):
        code, answer = server.ask(method, f"{path}{query}", obj, content_type)
        assert code < 500, (method, path, answer)
        assert code < 400 or answer["code"] == code


@settings(max_examples=150, deadline=None)
@given(wrong=_almost_right(), force=st.booleans())
def test_applying_them_is_answered(server: Server, wrong: Any, force: bool) -> None:
    which, obj = wrong
    path = f"{server.objects[which]}?fieldManager=law&force={str(force).lower()}"
    code, answer = server.ask("PATCH", path, obj, "application/apply-patch+yaml")
    assert code < 500, answer
    assert code < 400 or answer["code"] == code
