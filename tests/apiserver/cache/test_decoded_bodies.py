"""A cached body decodes to the same result."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import errors, scheme
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver import bodies
from rota.apiserver.bodies import Strictness
from rota.apiserver.cache import decoded_bodies


def _pods() -> ResourceType:
    found = scheme.builtin().preferred(GroupResource("", "pods"))
    assert found is not None
    return found


PODS = _pods()
SPEC = '{"containers":[{"name":"c","image":"x"}],"nodeSelector":{"a":"b"}}'


def _body(metadata: str = '{"name":"p"}', spec: str = SPEC, rest: str = "") -> bytes:
    return f'{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},"spec":{spec}{rest}}}'.encode()


def _outcome(read: Any, body: bytes, strictness: Strictness) -> tuple[Any, list[str]]:
    warnings: list[str] = []
    try:
        return read(body, strictness, warnings.append), warnings
    except (errors.ApiError, bodies.Unreadable) as error:
        return str(error), warnings


def _plainly(body: bytes, strictness: Strictness, warn: Any) -> Any:
    parsed = bodies.parse(body, "application/json", find_duplicates=strictness is not Strictness.IGNORE)
    return bodies.as_object(
        parsed, PODS, gvk=PODS.gvk, model=PODS.model, schema=None, strictness=strictness, warn=warn, found=[]
    )


def _by_mould(body: bytes, strictness: Strictness, warn: Any) -> Any:
    return decoded_bodies.read(
        body, "application/json", PODS, gvk=PODS.gvk, model=PODS.model, schema=None, strictness=strictness, warn=warn
    )


#: Each is a body that shares all but its metadata with a valid one, or seems to.
TRICKY = [
    _body(),
    _body('{"name":"q","labels":{"a":"b"}}'),
    _body('{"name":"q","labels":{},"annotations":null,"ownerReferences":[]}'),
    _body('{"name":"p","name":"q"}'),
    _body('{"name":"p","labels":{"a":"1","a":"2"}}'),
    _body('{"name":"p","unknown":1}'),
    _body('{"name":7}'),
    _body("null"),
    _body("[]"),
    _body('{"name":"p"'),
    _body('{"name" : "p", "name":"q"}'),
    _body('{"name":"p","labels":{"a":"x\\":y"}}'),
    # a quote in disguise beside a repeated name: what one adds to the count the other must not take away
    _body('{"name":"p","labels":{"a":"x\\u0022:y","a":"z"}}'),
    _body('{"name":"p","annotations":{"a":"\\u0022:","b":"1","b":"2"}}'),
    _body(rest=',"spec":{"containers":[]}'),
    _body(rest=',"metadata":{"name":"other"}'),
    _body(rest=',"sp\\u0065c":{"containers":[]}'),
    _body(rest=',"extra":{"a":1}'),
    _body(spec='{"containers":[],"containers":[{"name":"c","image":"x"}]}'),
    _body(spec='{"containers":[{"name":"c","image":"x","bogus":true}]}'),
    _body(spec='{"containers":"none"}'),
    b'{"apiVersion":"v1","kind":"Pod","spec":' + SPEC.encode() + b"}",
    b'{"kind":"Service","apiVersion":"v1","metadata":{"name":"p"},"spec":' + SPEC.encode() + b"}",
    b'{"metadata":{"name":"p"},"spec":' + SPEC.encode() + b"}",
    b"[]",
    b"",
    b"\xff",
]


@pytest.mark.parametrize("strictness", list(Strictness))
@pytest.mark.parametrize("body", TRICKY)
def test_a_cached_body_decodes_to_the_same_object(body: bytes, strictness: Strictness) -> None:
    _by_mould(_body(), Strictness.WARN, lambda _: None)
    expected = _outcome(_plainly, body, strictness)
    for _ in range(3):
        assert _outcome(_by_mould, body, strictness) == expected


@given(
    name=st.text(max_size=5),
    labels=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    escaped=st.booleans(),
    repeated=st.booleans(),
)
def test_it_does_so_whatever_the_metadata_says(
    name: str, labels: dict[str, str], escaped: bool, repeated: bool
) -> None:
    metadata = json.dumps({"name": name, "labels": labels}, ensure_ascii=escaped)
    if repeated:
        metadata = metadata[:-1] + ',"name":"again"}'
    _by_mould(_body(), Strictness.WARN, lambda _: None)
    assert _outcome(_by_mould, _body(metadata), Strictness.WARN) == _outcome(_plainly, _body(metadata), Strictness.WARN)


def test_objects_from_one_cached_body_share_nothing() -> None:
    first, second = (_by_mould(_body(), Strictness.WARN, lambda _: None) for _ in range(2))
    first["spec"]["containers"][0]["image"] = "changed"
    first["metadata"]["name"] = "changed"
    assert second == _plainly(_body(), Strictness.WARN, lambda _: None)


def test_it_remembers_only_so_much() -> None:
    for number in range(2000):
        _by_mould(_body(spec=f'{{"hostname":"h{number}","containers":[]}}'), Strictness.WARN, lambda _: None)
    assert len(decoded_bodies._known) <= 512
