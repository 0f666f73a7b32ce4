"""Audit events have upstream's format, and never contain a secret."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.apiserver.audit import policy
from rota.apiserver.audit.auditor import Auditor
from rota.apiserver.interfaces import Credentials, User
from rota.kit import system
from rota.testing.api import ApiServer

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
NEEDLE = "aHVudGVyMg=="
EVERYTHING = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]\n"


class Lines:
    """A log in memory."""

    def __init__(self) -> None:
        self.text = b""

    def write(self, line: bytes, /) -> None:
        self.text += line

    @property
    def events(self) -> list[Any]:
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def last(self) -> Any:
        return self.events[-1]


class ByHeader:
    """Authenticates by a header; without it the request is anonymous."""

    def recall(self, credentials: Credentials, /) -> User | None:
        return None

    def flow(self, credentials: Credentials, /) -> str:
        return "test"

    async def authenticate(self, credentials: Credentials, /) -> User:
        said = credentials.headers.get(b"x-user")
        if said is None:
            raise errors.unauthorized("Unauthorized")
        name, _, groups = said.decode().partition(",")
        return User(name=name, groups=tuple(groups.split(",")), uid="7", extra={"example.com/team": ("a",)})


@contextlib.asynccontextmanager
async def audited(rules: policy.Policy | None = None, **settings: Any) -> AsyncIterator[tuple[ApiServer, Lines]]:
    log = Lines()
    rules = rules or policy.parse(EVERYTHING, source="test")
    secret = (GroupResource("", "configmaps"),) if settings.pop("configmaps_are_secret", False) else ()
    auditor = Auditor(rules, log, system.SystemClock(), secret=secret)
    async with ApiServer(auditor=auditor, **settings) as api:
        yield api, log


async def test_an_event_has_the_user_the_request_the_time_and_the_result() -> None:
    async with audited(policy.default(), authenticator=ByHeader()) as (api, log):
        answer = await api.request(
            "GET", f"{MAPS}/none", headers={"x-user": "ann,system:masters", "user-agent": "test/1"}, query={"a": "b"}
        )
    event = log.last
    for name in ("requestReceivedTimestamp", "stageTimestamp"):
        assert len(event.pop(name)) == len("2026-01-01T00:00:00.000000Z")
    assert event.pop("annotations")["authorization.k8s.io/decision"] == "allow"
    assert event.pop("auditID") == answer.headers["audit-id"]
    assert event == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "stage": "ResponseComplete",
        "requestURI": f"{MAPS}/none?a=b",
        "verb": "get",
        "user": {"username": "ann", "uid": "7", "groups": ["system:masters"], "extra": {"example.com/team": ["a"]}},
        "userAgent": "test/1",
        "objectRef": {"resource": "configmaps", "namespace": "default", "name": "none", "apiVersion": "v1"},
        "responseStatus": {
            "metadata": {},
            "status": "Failure",
            "message": 'configmaps "none" not found',
            "reason": "NotFound",
            "code": 404,
        },
    }


async def test_refused_requests_are_audited() -> None:
    async with audited(policy.default(), authenticator=ByHeader()) as (api, log):
        assert (await api.get(MAPS)).code == 401
        assert (log.last["user"], log.last["responseStatus"]["code"]) == ({}, 401)
        refused = await api.request("GET", MAPS, headers={"x-user": "ann,people"})
        assert refused.code == 403
        assert log.last["annotations"]["authorization.k8s.io/decision"] == "forbid"
        headers = {"x-user": "ann,people", "impersonate-user": "bob"}
        assert (await api.request("GET", MAPS, headers=headers)).code == 403
        assert log.last["user"]["username"] == "ann"


async def test_both_are_named_where_one_acts_as_another() -> None:
    async with audited(policy.default(), authenticator=ByHeader()) as (api, log):
        headers = {"x-user": "root,system:masters", "impersonate-user": "bob"}
        await api.request("GET", MAPS, headers=headers)
    assert log.last["user"]["username"] == "root"
    assert log.last["impersonatedUser"]["username"] == "bob"


async def test_a_stream_is_written_down_when_it_begins_and_when_it_ends() -> None:
    async with audited() as (api, log):
        async with api.watch(MAPS):
            assert [(one["verb"], one["stage"]) for one in log.events] == [("watch", "ResponseStarted")]
        assert log.last["stage"] == "ResponseComplete"
        assert len({one["auditID"] for one in log.events}) == 1


async def test_pages_that_are_no_resources_have_a_path_only() -> None:
    async with audited() as (api, log):
        await api.get("/version")
    assert "objectRef" not in log.last
    assert (log.last["verb"], log.last["requestURI"]) == ("get", "/version")


async def test_the_clients_number_is_taken_if_it_is_one() -> None:
    async with audited() as (api, log):
        for given, taken in (("request-7", True), ("x" * 65, False), ("with space", False)):
            answer = await api.request("GET", "/version", headers={"audit-id": given})
            assert (log.last["auditID"] == given) is taken
            assert answer.headers["audit-id"] == log.last["auditID"]


async def test_what_was_sent_is_written_at_the_level_of_requests() -> None:
    async with audited() as (api, log):
        body = {"metadata": {"name": "a", "managedFields": []}, "data": {"k": "v"}}
        await api.post(MAPS, body)
        assert log.last["requestObject"] == body
        assert log.last["objectRef"]["name"] == "a"
        await api.patch(f"{MAPS}/a", [{"op": "replace", "path": "/data/k", "value": "w"}], kind="json")
        assert log.last["requestObject"] == [{"op": "replace", "path": "/data/k", "value": "w"}]
        await api.patch(f"{MAPS}/a", b"apiVersion: v1\nkind: ConfigMap\n", kind="apply", fieldManager="m")
        assert log.last["requestObject"] == {"apiVersion": "v1", "kind": "ConfigMap"}
        await api.post(MAPS, b"{no json")
        assert "requestObject" not in log.last
    text = EVERYTHING + "omitManagedFields: true\n"
    async with audited(policy.parse(text, source="test")) as (api, log):
        await api.post(MAPS, body)
        assert log.last["requestObject"]["metadata"] == {"name": "a"}


async def test_secrets_and_tokens_are_never_written() -> None:
    account = "/api/v1/namespaces/default/serviceaccounts/default/token"
    async with audited(configmaps_are_secret=True) as (api, log):
        await api.post(SECRETS, {"metadata": {"name": "s"}, "data": {"password": NEEDLE}})
        await api.post(SECRETS, {"metadata": {"name": "S"}, "data": {NEEDLE: NEEDLE}, "type": NEEDLE})
        await api.patch(f"{SECRETS}/s", {"data": {"more": NEEDLE}})
        await api.patch(f"{SECRETS}/s", {"data": {"more": NEEDLE, "bad key": NEEDLE}, "type": NEEDLE})
        await api.get(f"{SECRETS}/s")
        await api.post(MAPS, {"metadata": {"name": "m"}, "data": {"also": NEEDLE}})
        await api.post(account, {"spec": {"audiences": [NEEDLE]}})
        await api.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": NEEDLE}})
        await api.get("/version", access_token=NEEDLE, other="seen")
        await api.request("GET", "/version", headers={"authorization": f"Bearer {NEEDLE}"})
        assert len(log.events) == 10
        assert NEEDLE.encode() not in log.text
        assert b"aHVudGVy" not in log.text
        assert b"other=seen" in log.text
        assert log.events[0]["objectRef"]["name"] == "s"


async def test_a_client_that_goes_away_is_written_down(caplog: pytest.LogCaptureFixture) -> None:
    async with audited() as (api, log):
        watching = asyncio.create_task(api.request("GET", MAPS, query={"watch": "1"}))
        async with asyncio.timeout(60):
            while not log.text:  # noqa: ASYNC110 - a look at another part, not an event
                await asyncio.sleep(0)
        watching.cancel()
        await asyncio.wait([watching])
    assert [one["stage"] for one in log.events] == ["ResponseStarted", "ResponseComplete"]
