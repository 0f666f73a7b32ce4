"""Upstream's audit policy: which rule decides, and errors in a file."""

from pathlib import Path

import pytest

from rota.api import scheme
from rota.apiserver import routing
from rota.apiserver.audit import policy
from rota.apiserver.audit.policy import Asked, Level, Stage
from rota.apiserver.interfaces import User

ANN = User(name="ann", groups=("people", "system:authenticated"))
HEAD = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"


def level(text: str, method: str, path: str, user: User = ANN) -> str:
    route = routing.match(scheme.builtin(), method, path)
    verb = method.lower() if route is None else route.verb
    rules = policy.parse(HEAD + text, source="policy.yaml")
    return rules.ruling(Asked(user=user, verb=verb, route=route, path=path)).level.value


@pytest.mark.parametrize(
    ("rule", "matches", "others"),
    [
        ("users: [ann]", [("GET", "/api/v1/pods")], []),
        ("users: [bob]", [], [("GET", "/api/v1/pods")]),
        ("userGroups: [people, x]", [("GET", "/api/v1/pods"), ("GET", "/version")], []),
        ("verbs: [list]", [("GET", "/api/v1/pods")], [("GET", "/api/v1/namespaces/a/pods/b"), ("GET", "/version")]),
        ("namespaces: [a]", [("GET", "/api/v1/namespaces/a/pods")], [("GET", "/api/v1/namespaces/b/pods")]),
        ('namespaces: [""]', [("GET", "/api/v1/nodes")], [("GET", "/api/v1/namespaces/b/pods"), ("GET", "/version")]),
        (
            "resources: [{resources: [pods]}]",
            [("GET", "/api/v1/pods")],
            [("GET", "/api/v1/nodes"), ("GET", "/api/v1/namespaces/a/pods/b/log"), ("GET", "/version")],
        ),
        (
            'resources: [{resources: ["pods/log", "*/status"]}]',
            [("GET", "/api/v1/namespaces/a/pods/b/log"), ("PUT", "/api/v1/nodes/n/status")],
            [("GET", "/api/v1/pods"), ("GET", "/apis/apps/v1/namespaces/a/deployments/d/status")],
        ),
        (
            'resources: [{resources: ["pods/*"]}]',
            [("GET", "/api/v1/namespaces/a/pods/b/log")],
            [("GET", "/api/v1/pods")],
        ),
        ("resources: [{group: apps}]", [("GET", "/apis/apps/v1/deployments")], [("GET", "/api/v1/pods")]),
        (
            "resources: [{resources: [pods], resourceNames: [b]}]",
            [("GET", "/api/v1/namespaces/a/pods/b")],
            [("GET", "/api/v1/namespaces/a/pods/c"), ("GET", "/api/v1/pods")],
        ),
        (
            'nonResourceURLs: ["/healthz*", /version]',
            [("GET", "/healthz/ping"), ("GET", "/version")],
            [("GET", "/versions"), ("GET", "/api/v1/pods")],
        ),
    ],
)
def test_a_rule_matches_what_it_says(rule: str, matches: list[tuple[str, str]], others: list[tuple[str, str]]) -> None:
    text = f"rules:\n  - {{level: Request, {rule}}}\n  - {{level: Metadata}}\n"
    assert [level(text, *asked) for asked in matches] == ["Request"] * len(matches)
    assert [level(text, *asked) for asked in others] == ["Metadata"] * len(others)


def test_the_first_rule_that_matches_decides_and_without_one_nothing_is_written() -> None:
    assert level("rules: [{level: None, users: [ann]}, {level: Metadata}]", "GET", "/api/v1/pods") == "None"
    assert level("rules: [{level: Metadata, users: [bob]}]", "GET", "/api/v1/pods") == "None"


def test_stages_are_left_out_where_either_says_so() -> None:
    rules = policy.parse(
        HEAD + "omitStages: [RequestReceived]\nrules: [{level: Metadata, omitStages: [ResponseStarted]}]", source="p"
    )
    asked = Asked(user=ANN, verb="get", route=None, path="/version")
    assert rules.ruling(asked).omitted == {Stage.RECEIVED, Stage.STARTED}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rules: [{level: RequestResponse}]", "Invalid enum value 'RequestResponse'"),
        ("rules: [{level: Metadata, user: [a]}]", "unknown field `user`"),
        ("rules: [{level: Metadata, namespaces: [a], nonResourceURLs: [/x]}]", "not about both"),
        ("rule: []", "unknown field `rule`"),
        ("rules: [", "while parsing"),
    ],
)
def test_what_is_wrong_with_a_policy_is_said(text: str, complaint: str) -> None:
    with pytest.raises(policy.PolicyError, match=r"policy\.yaml is no audit policy") as caught:
        policy.parse(HEAD + text, source="policy.yaml")
    assert complaint in str(caught.value)


def test_another_kind_of_document_is_named() -> None:
    with pytest.raises(policy.PolicyError, match="it is a ConfigMap of v1"):
        policy.parse("apiVersion: v1\nkind: ConfigMap\nrules: []\n", source="p")


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(policy.PolicyError, match="cannot read"):
        policy.load(tmp_path / "none")


def test_by_default_everything_but_health_is_written_without_bodies() -> None:
    rules = policy.default()
    for path, expected in (("/livez", Level.NONE), ("/version", Level.METADATA)):
        assert rules.ruling(Asked(user=ANN, verb="get", route=None, path=path)).level is expected
