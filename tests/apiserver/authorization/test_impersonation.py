"""Impersonation: which users may do it, and the resulting user."""

from typing import Any

import pytest

from rota.testing import access
from rota.testing.access import rule
from rota.testing.api import Answer, ApiServer

_WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class _Headers(dict[str, str]):
    """Headers of which some come twice."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        super().__init__(pairs)
        self._pairs = pairs

    def items(self) -> Any:
        return self._pairs


async def _who(api: ApiServer, headers: list[tuple[str, str]]) -> Answer:
    return await api.request("POST", _WHO, body={}, headers=_Headers(headers))


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ([("Impersonate-User", "jane")], {"username": "jane", "groups": ["system:authenticated"]}),
        (
            [("Impersonate-User", "jane"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")],
            {"username": "jane", "groups": ["a", "b", "system:authenticated"]},
        ),
        (
            [("Impersonate-User", "system:serviceaccount:dev:builder")],
            {
                "username": "system:serviceaccount:dev:builder",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:dev", "system:authenticated"],
            },
        ),
        (
            [("Impersonate-User", "system:anonymous")],
            {"username": "system:anonymous", "groups": ["system:unauthenticated"]},
        ),
        (
            [
                ("Impersonate-User", "jane"),
                ("Impersonate-Uid", "42"),
                ("Impersonate-Extra-Example.com%2fscopes", "read"),
                ("Impersonate-Extra-Example.com%2fscopes", "write"),
            ],
            {
                "username": "jane",
                "uid": "42",
                "groups": ["system:authenticated"],
                "extra": {"example.com/scopes": ["read", "write"]},
            },
        ),
    ],
)
async def test_headers_name_the_impersonated_user(
    api: ApiServer, headers: list[tuple[str, str]], user: dict[str, Any]
) -> None:
    if user["username"] == "system:anonymous":
        await access.bind(api, "system:anonymous", "system:basic-user")
        # the store is not read for anonymous users; a refusal of a known user makes the caches catch up
        assert (await api.acting_as("x").get("/metrics")).code == 403
    answer = await _who(api.acting_as("root", "system:masters"), headers)
    assert answer.code == 201, answer
    assert answer.json["status"]["userInfo"] == user


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (
            [("Impersonate-User", "jane")],
            'users "jane" is forbidden: User "x" cannot impersonate resource "users" in API group "" '
            "at the cluster scope",
        ),
        (
            [("Impersonate-User", "system:serviceaccount:dev:builder")],
            'serviceaccounts "builder" is forbidden: User "x" cannot impersonate resource "serviceaccounts" '
            'in API group "" in the namespace "dev"',
        ),
        (
            [("Impersonate-User", "friend"), ("Impersonate-Group", "system:masters")],
            'groups "system:masters" is forbidden: User "x" cannot impersonate resource "groups" in API group "" '
            "at the cluster scope",
        ),
        (
            [("Impersonate-User", "friend"), ("Impersonate-Uid", "1")],
            'uids.authentication.k8s.io "1" is forbidden: User "x" cannot impersonate resource "uids" '
            'in API group "authentication.k8s.io" at the cluster scope',
        ),
        (
            [("Impersonate-User", "friend"), ("Impersonate-Extra-Scope", "s")],
            'userextras.authentication.k8s.io "s" is forbidden: User "x" cannot impersonate resource '
            '"userextras/scope" in API group "authentication.k8s.io" at the cluster scope',
        ),
    ],
)
async def test_everything_that_is_impersonated_needs_the_right_to_it(
    api: ApiServer, headers: list[tuple[str, str]], message: str
) -> None:
    await access.grant(api, "x", rule("impersonate", "users", resourceNames=["friend"]))
    answer = await _who(api.acting_as("x"), headers)
    assert (answer.code, answer.json["message"]) == (403, message)
    allowed = await _who(api.acting_as("x"), [("Impersonate-User", "friend")])
    assert allowed.json["status"]["userInfo"]["username"] == "friend"


async def test_impersonation_replaces_the_users_own_rights(api: ApiServer) -> None:
    answer = await api.request("GET", "/api/v1/pods", headers={"Impersonate-User": "jane"})
    assert answer.code == 403
    assert 'User "jane" cannot list resource "pods"' in answer.json["message"]


async def test_groups_without_a_user_are_a_bad_request(api: ApiServer) -> None:
    answer = await api.request("GET", "/api/v1/pods", headers={"Impersonate-Group": "developers"})
    assert answer.code == 400
    assert answer.json["message"] == (
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"developers"}, '
        "Extra:map[string][]string(nil)} without impersonating a user name"
    )
