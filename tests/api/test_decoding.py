"""What becomes of the bytes that clients send: shape, warnings and refusals."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import decoding, errors, schemas, scheme
from rota.api.decoding import FieldValidation
from rota.api.fields import FieldError
from rota.api.kinds import ResourceType

SCHEME = scheme.builtin()
PAINT = ResourceType(group="example.com", version="v1", kind="Paint", plural="paints", namespaced=True)


def _type(name: str) -> ResourceType:
    found = SCHEME.find(name)
    assert found is not None
    return found


PODS = _type("pods")


def _refusal(body: Any, resource: ResourceType = PODS, **options: Any) -> str:
    with pytest.raises(errors.BadRequest) as caught:
        decoding.decode(body if isinstance(body, bytes) else json.dumps(body).encode(), resource, **options)
    return caught.value.message


def test_an_object_comes_back_in_the_shape_of_its_kind() -> None:
    decoded = decoding.decode(
        {
            "kind": "Pod",
            "metadata": {"name": "web", "creationTimestamp": None, "labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": 0.5, "memory": "1024Ki"}}}],
                "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1000M"}}],
            },
            "status": {},
        },
        PODS,
    )
    assert decoded.warnings == ()
    assert list(decoded.obj) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert decoded.obj["apiVersion"] == "v1"
    assert decoded.obj["metadata"] == {"name": "web", "labels": {"app": "web"}}
    assert decoded.obj["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m", "memory": "1Mi"}}
    assert decoded.obj["spec"]["volumes"] == [{"name": "v", "emptyDir": {"sizeLimit": "1G"}}]


def test_times_are_written_in_form() -> None:
    lease = {"spec": {"renewTime": "2024-01-01T00:00:00Z", "holderIdentity": "me"}}
    decoded = decoding.decode(lease, _type("leases"))
    assert decoded.obj["spec"]["renewTime"] == "2024-01-01T00:00:00.000000Z"
    pod = decoding.decode({"status": {"startTime": "2024-01-01T00:00:00.9Z"}}, PODS)
    assert pod.obj["status"]["startTime"] == "2024-01-01T00:00:00Z"


_SLOPPY = (
    b'{"apiVersion":"v1","kind":"Pod","colour":1,"metadata":{"name":"a","name":"b"},'
    b'"spec":{"containers":[{"name":"c"},{"name":"d","nme":"e","env":[{"x":1}]}]}}'
)


def test_unknown_and_duplicate_fields_are_warned_of_and_dropped() -> None:
    decoded = decoding.decode(_SLOPPY, PODS)
    assert decoded.warnings == (
        'duplicate field "metadata.name"',
        'unknown field "colour"',
        'unknown field "spec.containers[1].nme"',
        'unknown field "spec.containers[1].env[0].x"',
    )
    assert decoded.obj["spec"]["containers"] == [{"name": "c"}, {"name": "d", "env": [{}]}]
    assert decoded.obj["metadata"] == {"name": "b"}


def test_they_are_dropped_in_silence_or_refused_on_demand() -> None:
    assert decoding.decode(_SLOPPY, PODS, validation=FieldValidation.IGNORE).warnings == ()
    assert _refusal(_SLOPPY, validation=FieldValidation.STRICT) == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: duplicate field "metadata.name", '
        'unknown field "colour", unknown field "spec.containers[1].nme", unknown field "spec.containers[1].env[0].x"'
    )


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"spec": {"containers": {"name": "c"}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            {"spec": {"containers": [{"name": True}]}},
            "json: cannot unmarshal bool into Go struct field Container.spec.containers.name of type string",
        ),
        (
            {"spec": {"priority": "high"}},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            {"spec": {"priority": 1.5}},
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        ),
        ({"spec": []}, "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            {"spec": {"overhead": {"cpu": "much"}}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"spec": {"overhead": {"cpu": []}}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"spec": {"overhead": {"cpu": True}}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"metadata": {"creationTimestamp": "soon"}},
            'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"',
        ),
    ],
)
def test_a_wrong_type_is_refused_as_go_refuses_it(obj: dict[str, Any], why: str) -> None:
    assert _refusal(obj) == f'Pod in version "v1" cannot be handled as a Pod: {why}'


def test_what_is_no_object_is_unrecognized() -> None:
    assert _refusal(b"").startswith("the object provided is unrecognized (must be of type Pod): ")
    assert _refusal(b"").endswith("(<empty>)")
    assert _refusal(b"[1]").endswith("(<empty>)") is False
    assert "unrecognized" in _refusal(b'{"a":')
    assert "unrecognized" in _refusal(b'{"a":"\xff"}')
    assert _refusal(b'{"kind":"Pod","metadata":{"name":"a"}').endswith('({"kind":"Pod","metadata":{"nam ...)')


@pytest.mark.parametrize("depth", [900, 5000])
def test_endless_nesting_is_refused_and_not_a_crash(depth: int) -> None:
    schema = b'{"not":' * depth + b"{}" + b"}" * depth
    body = b'{"spec":{"versions":[{"schema":{"openAPIV3Schema":%b}}]}}' % schema
    assert "exceeded max depth" in _refusal(body, _type("crd"))


def test_another_kind_or_version_is_refused() -> None:
    assert _refusal({"kind": "Deployment", "apiVersion": "apps/v1"}) == (
        'Deployment in version "v1" cannot be handled as a Pod: '
        'no kind "Deployment" is registered for version "apps/v1" at this path'
    )
    assert _refusal({"kind": "Pod", "apiVersion": "v2"}) == (
        "the API version in the data (v2) does not match the expected API version (v1)"
    )
    assert _refusal({"apiVersion": "a/b/c"}) == "unexpected GroupVersion string: a/b/c"
    assert "must be strings" in _refusal({"kind": 1})


def test_custom_kinds_keep_unknown_fields_outside_their_metadata() -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Paint", "metadata": {"name": "a", "x": 1}, "spec": {"y": None}}
    decoded = decoding.decode(body, PAINT)
    assert decoded.warnings == ('unknown field "metadata.x"',)
    assert decoded.obj["metadata"] == {"name": "a"}
    assert decoded.obj["spec"] == {"y": None}
    why = "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string"
    assert _refusal({"metadata": {"name": 5}}, PAINT) == f'Paint in version "v1" cannot be handled as a Paint: {why}'


def test_subresources_decode_as_their_own_kind() -> None:
    binding = PODS.subresources["binding"]
    decoded = decoding.decode({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}, binding)
    assert (decoded.obj["kind"], decoded.obj["target"]["name"]) == ("Binding", "n")
    eviction = decoding.decode({"metadata": {"name": "a"}}, PODS.subresources["eviction"])
    assert eviction.obj["apiVersion"] == "policy/v1"


def test_typed_views_read_stored_bytes() -> None:
    pod = decoding.typed(b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}],"later":1}}', PODS)
    assert pod.metadata.name == "a"
    assert pod.spec.containers[0].name == "c"
    assert pod.spec.containers[0].image is None
    assert decoding.typed_from_object({"spec": {}}, PODS).spec.containers == []
    with pytest.raises(TypeError, match="custom kind"):
        decoding.typed(b"{}", PAINT)


def _missing(obj: dict[str, Any], model: str) -> list[str]:
    found: list[FieldError] = schemas.missing_fields(obj, model)
    return [one.field for one in found]


def test_missing_required_fields_are_all_found() -> None:
    pod = {
        "spec": {"containers": [{"env": [{}], "ports": [{}]}], "volumes": [{"name": "v"}]},
        "status": {"containerStatuses": [{}]},
    }
    assert _missing(pod, "core_v1.Pod") == ["spec.containers[0].name", "spec.containers[0].env[0].name"]
    assert _missing({"spec": {"containers": []}}, "core_v1.Pod") == ["spec.containers"]
    assert _missing({"spec": {}}, "apps_v1.Deployment") == ["spec.selector", "spec.template"]
    assert _missing({"metadata": {"name": "a"}}, "scheduling_v1.PriorityClass") == []


@pytest.mark.slow
def test_every_kind_can_be_decoded() -> None:
    for one in SCHEME:
        decoded = decoding.decode({"metadata": {"name": "a"}, "status": {"no such field": 1}}, one)
        assert decoded.obj["kind"] == one.kind
        assert decoding.typed_from_object(decoded.obj, one).metadata.name == "a"
        for subresource in one.subresources.values():
            if subresource.model:
                assert decoding.decode({}, subresource).obj["kind"] == subresource.kind.kind


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
pod_like = st.fixed_dictionaries(
    {},
    optional={
        "metadata": json_values
        | st.fixed_dictionaries({}, optional={"name": json_values, "labels": json_values, "uid": st.text(max_size=3)}),
        "spec": json_values
        | st.fixed_dictionaries(
            {},
            optional={
                "containers": json_values | st.lists(st.fixed_dictionaries({"name": json_values})),
                "overhead": json_values | st.dictionaries(st.text(max_size=3), json_values, max_size=2),
                "priority": json_values,
                "unknown": json_values,
            },
        ),
    },
)


@pytest.mark.slow
@given(pod_like)
def test_any_json_is_decoded_or_refused_and_decoding_twice_changes_nothing(obj: dict[str, Any]) -> None:
    try:
        once = decoding.decode(json.dumps(obj).encode(), PODS)
    except errors.BadRequest:
        return
    twice = decoding.decode(json.dumps(once.obj).encode(), PODS)
    assert twice.obj == once.obj
    assert twice.warnings == ()
    decoding.typed_from_object(once.obj, PODS)
