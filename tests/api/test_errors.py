"""The wire form of refusals: codes, reasons, messages and causes, and back again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import errors, fields
from rota.api.fields import Path
from rota.api.identifiers import GroupKind, GroupResource

PODS = GroupResource("", "pods")
DEPLOYMENTS = GroupResource("apps", "deployments")


def test_not_found_is_written_exactly_as_upstream_writes_it() -> None:
    assert errors.not_found(PODS, "x").encode() == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \\"x\\" not found",'
        b'"reason":"NotFound","details":{"name":"x","kind":"pods"},"code":404}'
    )


@pytest.mark.parametrize(
    ("error", "code", "reason", "message"),
    [
        (errors.already_exists(DEPLOYMENTS, "web"), 409, "AlreadyExists", 'deployments.apps "web" already exists'),
        (
            errors.conflict(PODS, "x"),
            409,
            "Conflict",
            'Operation cannot be fulfilled on pods "x": the object has been modified; '
            "please apply your changes to the latest version and try again",
        ),
        (errors.forbidden(PODS, "x", "no"), 403, "Forbidden", 'pods "x" is forbidden: no'),
        (errors.forbidden(PODS, "", "no"), 403, "Forbidden", "pods is forbidden: no"),
        (errors.forbidden(GroupResource("", ""), "", "no"), 403, "Forbidden", "forbidden: no"),
        (
            errors.method_not_allowed(PODS, "watch"),
            405,
            "MethodNotAllowed",
            'watch is not supported on resources of kind "pods"',
        ),
        (errors.timeout("slow"), 504, "Timeout", "Timeout: slow"),
        (
            errors.resource_version_too_large(9, 5),
            504,
            "Timeout",
            "Timeout: Too large resource version: 9, current: 5",
        ),
        (errors.internal_error("boom"), 500, "InternalError", "Internal error occurred: boom"),
        (
            errors.server_timeout(PODS, "create", retry_after_seconds=2),
            500,
            "ServerTimeout",
            "The create operation against pods could not be completed at this time, please try again.",
        ),
        (
            errors.request_entity_too_large("limit is 3145728"),
            413,
            "RequestEntityTooLarge",
            "Request entity too large: limit is 3145728",
        ),
        (
            errors.not_acceptable(["application/json"]),
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json",
        ),
        (errors.expired("too old"), 410, "Expired", "too old"),
        (errors.unauthorized(), 401, "Unauthorized", "Unauthorized"),
        (errors.too_many_requests("later", retry_after_seconds=10), 429, "TooManyRequests", "later"),
    ],
)
def test_each_refusal_has_its_code_reason_and_message(
    error: errors.ApiError, code: int, reason: str, message: str
) -> None:
    wire = error.to_wire()
    assert (wire["code"], wire["reason"], wire["message"]) == (code, reason, message)
    assert str(error) == message


def test_invalid_names_the_only_field_plainly_and_several_in_brackets() -> None:
    path = Path("spec").child("containers")
    one = errors.invalid(GroupKind("", "Pod"), "x", [fields.required(path)])
    assert one.message == 'Pod "x" is invalid: spec.containers: Required value'
    two = errors.invalid(
        GroupKind("apps", "Deployment"),
        "x",
        [fields.required(path), fields.invalid(path.index(0).child("name"), "A", "must be lower case")],
    )
    assert two.message == (
        'Deployment.apps "x" is invalid: [spec.containers: Required value, '
        'spec.containers[0].name: Invalid value: "A": must be lower case]'
    )
    assert two.to_wire()["details"]["causes"] == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"},
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "A": must be lower case',
            "field": "spec.containers[0].name",
        },
    ]


def test_a_field_error_said_twice_is_a_cause_twice_but_a_message_once() -> None:
    twice = [fields.required(Path("a")), fields.required(Path("a"))]
    error = errors.invalid(GroupKind("", "Pod"), "x", twice)
    assert error.message == 'Pod "x" is invalid: a: Required value'
    assert len(error.causes) == 2


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (fields.required(Path("a"), "say it"), "a: Required value: say it"),
        (fields.not_supported(Path("a"), "x", ["b", "c"]), 'a: Unsupported value: "x": supported values: "b", "c"'),
        (fields.duplicate(Path("a").index(1), "x"), 'a[1]: Duplicate value: "x"'),
        (fields.not_found(Path("a"), 5), "a: Not found: 5"),
        (fields.forbidden(Path("a"), "no"), "a: Forbidden: no"),
        (fields.too_long(Path("a"), 63), "a: Too long: may not be more than 63 bytes"),
        (fields.too_many(Path("a"), 3, 1), "a: Too many: 3: must have at most 1 item"),
        (fields.type_invalid(Path("a"), None, "must be a string"), 'a: Invalid value: "null": must be a string'),
        (fields.internal(Path("a"), "boom"), "a: Internal error: boom"),
        (fields.invalid(Path("a").key("k"), True, "no"), "a[k]: Invalid value: true: no"),
        (fields.invalid(Path("a"), ["x", "y"], "no"), 'a: Invalid value: ["x","y"]: no'),
        (fields.invalid(Path("a"), {"b": 1}, "no"), 'a: Invalid value: {"b":1}: no'),
        (fields.invalid(Path("a"), 1.0, ""), "a: Invalid value: 1"),
        (fields.invalid(Path("a"), 'q"\n\x7f', ""), 'a: Invalid value: "q\\"\\n\\x7f"'),
        (fields.invalid(fields.ROOT, "v", "no"), '<nil>: Invalid value: "v": no'),
        (fields.required(fields.ROOT.child("a", "b")), "a.b: Required value"),
    ],
)
def test_field_errors_read_as_upstream_writes_them(error: fields.FieldError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize(
    "kind", [each for each in errors.ApiError.__subclasses__() if each.__module__ == errors.__name__]
)
def test_every_reason_survives_the_wire(kind: type[errors.ApiError]) -> None:
    error = kind("message", details=errors.Details(name="x", retry_after_seconds=3), continue_="token")
    back = errors.from_wire(error.encode())
    assert type(back) is kind
    assert back.to_wire() == error.to_wire() == errors.from_wire(error.to_wire()).to_wire()
    assert back.retry_after_seconds == 3
    assert back.continue_ == "token"


def test_without_a_message_the_class_explains_itself() -> None:
    assert "list again" in str(errors.Expired())


def test_an_unknown_reason_falls_back_to_the_code() -> None:
    answer = {"kind": "Status", "reason": "Novelty", "code": 404, "message": "m"}
    assert type(errors.from_wire(answer)) is errors.NotFound


@pytest.mark.parametrize("body", [b"<html>no</html>", b"", b"\xff", b"[]", b'{"kind":"Pod"}', "plain"])
def test_an_answer_that_is_no_status_becomes_the_class_of_its_code(body: bytes | str) -> None:
    error = errors.from_wire(body, code=503)
    assert type(error) is errors.ServiceUnavailable
    assert error.has_cause(errors.UNEXPECTED_SERVER_RESPONSE)
    assert errors.from_wire(body, code=418).code == 418


@given(st.text(), st.text())
def test_any_name_gives_valid_json(name: str, why: str) -> None:
    wire = json.loads(errors.conflict(PODS, name, why or "why").encode())
    assert wire["details"].get("name", "") == name
