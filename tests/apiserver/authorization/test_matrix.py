"""Every default role and every system user against every verb on every kind.

`matrix.txt` records what each may do: everything else is refused. A change of the policy shows there, and
REWRITE_MATRIX=1 rewrites it. The properties below limit what any change may allow.
"""

import functools
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rota.api import scheme
from rota.api.identifiers import GroupResource
from rota.api.kinds import ALL_VERBS
from rota.api.users import ANONYMOUS, AUTHENTICATED, User
from rota.apiserver.authorization.nodes.authorizer import NodeAuthorizer
from rota.apiserver.authorization.nodes.relations import Relations
from rota.apiserver.authorization.policy import objects
from rota.apiserver.authorization.rbac import Policy
from rota.apiserver.interfaces import Question
from rota.apiserver.subresources import bindings, what_if
from rota.apiserver.verbs import status_batches

_RECORD = Path(__file__).with_name("matrix.txt")
_HERE, _ELSEWHERE = "here", "elsewhere"
#: Verbs besides those of the API, and what they are about.
_SPECIAL = {
    ("rbac.authorization.k8s.io", "roles"): ("bind", "escalate"),
    ("rbac.authorization.k8s.io", "clusterroles"): ("bind", "escalate"),
    ("", "users"): ("impersonate",),
    ("", "groups"): ("impersonate",),
    ("", "serviceaccounts"): ("impersonate",),
    ("certificates.k8s.io", "signers"): ("approve", "sign", "attest"),
}
_PATHS = (
    "/", "/api", "/apis", "/apis/apps/v1", "/healthz", "/healthz/ping", "/livez", "/readyz", "/version", "/metrics",
    "/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/logs",
)  # fmt: skip


class _Thing(NamedTuple):
    group: str
    resource: str
    subresource: str
    namespaced: bool

    def __str__(self) -> str:
        plural = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{plural}/{self.subresource}" if self.subresource else plural


@functools.cache
def _things() -> tuple[tuple[_Thing, tuple[str, ...]], ...]:
    """Everything there is, with the verbs that can be asked about."""
    known = scheme.builtin()
    known.add(bindings.BATCHES)
    known.add(status_batches.BATCHES)
    known.add(what_if.WHAT_IFS)
    found: dict[_Thing, tuple[str, ...]] = {}
    for resource in known:
        special = _SPECIAL.get((resource.group, resource.plural), ())
        found[_Thing(resource.group, resource.plural, "", resource.namespaced)] = (*ALL_VERBS, *special)
        for part in resource.subresources:
            found[_Thing(resource.group, resource.plural, part, resource.namespaced)] = ALL_VERBS
    for (group, plural), verbs in _SPECIAL.items():
        if not known.versions(GroupResource(group, plural)):
            found[_Thing(group, plural, "", False)] = verbs
    return tuple(sorted(found.items()))


@functools.cache
def _policy() -> Policy:
    policy = Policy()
    for one in objects.all_defaults():
        put = policy.put_binding if "roleRef" in one else policy.put_role
        put(one["metadata"].get("namespace", ""), one["metadata"]["name"], one)
    for role in ("view", "edit", "admin"):
        reference = {"kind": "ClusterRole", "name": role}
        policy.put_binding(_HERE, role, {"roleRef": reference, "subjects": [{"kind": "User", "name": f"{role} here"}]})
        everywhere = {"roleRef": reference, "subjects": [{"kind": "User", "name": f"{role} everywhere"}]}
        policy.put_binding("", f"matrix:{role}", everywhere)
    return policy


def _user(name: str, *groups: str) -> User:
    return User(name=name, groups=(*groups, AUTHENTICATED))


_EVERYBODY = _user("somebody")


def _account(namespace: str, name: str) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return _user(f"system:serviceaccount:{namespace}:{name}", *groups)


@functools.cache
def _identities() -> dict[str, User]:
    subjects = [
        subject
        for one in objects.all_defaults()
        if one["kind"] == "ClusterRoleBinding"
        for subject in one.get("subjects", ())
    ]
    named = sorted({one["name"] for one in subjects if one["kind"] == "User"})
    accounts = sorted({one["name"] for one in subjects if one["kind"] == "ServiceAccount"})
    users = {
        "anonymous": ANONYMOUS,
        "everybody": _EVERYBODY,
        **{
            f"{role} {where}": _user(f"{role} {where}")
            for role in ("view", "edit", "admin")
            for where in (_HERE, "everywhere")
        },
        "any service account": _account(_HERE, "default"),
        "a newcomer with a join token": _user("system:bootstrap:abcdef", "system:bootstrappers"),
        "a node": _user("system:node:n", "system:nodes"),
        "monitoring": _user("prometheus", "system:monitoring"),
        "rota:controllers": _user("rota:controllers"),
    }
    users |= {name: _user(name) for name in named}
    users |= {f"controller {name}": _account("kube-system", name) for name in accounts}
    return users


def _allowed(question: Question) -> bool:
    return _nodes().decide(question).allowed or _policy().decide(question).allowed


@functools.cache
def _nodes() -> NodeAuthorizer:
    return NodeAuthorizer(Relations())


def _may(user: User, namespace: str = _HERE) -> tuple[tuple[str, _Thing], ...]:
    """All that a user may do in a namespace, and with cluster-scoped kinds."""
    return _worked_out(user.name, user.groups, namespace)


@functools.cache
def _worked_out(name: str, groups: tuple[str, ...], namespace: str) -> tuple[tuple[str, _Thing], ...]:
    return tuple(_work_out(User(name=name, groups=groups), namespace))


def _work_out(user: User, namespace: str) -> Iterator[tuple[str, _Thing]]:
    for thing, verbs in _things():
        for verb in verbs:
            question = Question(
                user=user,
                verb=verb,
                group=thing.group,
                resource=thing.resource,
                subresource=thing.subresource,
                namespace=namespace if thing.namespaced or thing.resource == "namespaces" else "",
                name="some",
            )
            if _allowed(question):
                yield verb, thing


def _described(user: User) -> Iterator[str]:
    """What a user may do, besides what every authenticated user may."""
    common = set(_may(_EVERYBODY)) if user != _EVERYBODY else set()
    verbs: dict[str, list[str]] = {}
    for verb, thing in _may(user):
        if (verb, thing) not in common:
            verbs.setdefault(str(thing), []).append(verb)
    by_verbs: dict[str, list[str]] = {}
    for name, found in verbs.items():
        by_verbs.setdefault(" ".join(found), []).append(name)
    everything = {str(thing) for thing, _ in _things()}
    for found_verbs, things in sorted(by_verbs.items()):
        rest = everything - set(things)
        told = f"everything but {' '.join(sorted(rest))}" if len(rest) < len(things) and rest else " ".join(things)
        yield f"    {found_verbs}: {told if rest else 'everything'}"
    known = set(_paths(_EVERYBODY)) if user not in (_EVERYBODY, ANONYMOUS) else set()
    paths = [path for path in _paths(user) if path not in known]
    if paths:
        yield f"    paths: {' '.join(paths)}"


def _paths(user: User) -> list[str]:
    return [path for path in _PATHS if _allowed(Question(user=user, verb="get", path=path))]


def _record() -> str:
    sections = [f"{name}\n" + "\n".join(_described(user)) for name, user in _identities().items()]
    return "\n".join(sections) + "\n"


def test_every_user_may_do_what_the_record_says_and_nothing_else() -> None:
    if os.environ.get("REWRITE_MATRIX"):
        _RECORD.write_text(_record())
    assert _record().splitlines() == _RECORD.read_text().splitlines(), "if this is meant: REWRITE_MATRIX=1"


@pytest.mark.parametrize("role", ["view", "edit", "admin"])
def test_a_role_in_a_namespace_reaches_nothing_outside_of_it(role: str) -> None:
    user, nobody = _user(f"{role} here"), set(_may(_EVERYBODY))
    assert set(_may(user, _ELSEWHERE)) == nobody
    assert {thing for _, thing in set(_may(user)) - nobody if not thing.namespaced} <= {
        _Thing("", "namespaces", "", False),
        _Thing("", "namespaces", "status", False),
    }


def test_viewers_change_nothing_and_see_neither_secrets_nor_roles() -> None:
    nobody = set(_may(_EVERYBODY))
    for where in (_HERE, "everywhere"):
        gained = set(_may(_user(f"view {where}"))) - nobody
        assert {verb for verb, _ in gained} == {"get", "list", "watch"}
        seen = {(thing.group, thing.resource) for _, thing in gained}
        assert not seen & {
            ("", "secrets"),
            *(("rbac.authorization.k8s.io", kind) for kind in ("roles", "rolebindings")),
        }
        parts = {thing.subresource for _, thing in gained}
        assert not parts & {"exec", "attach", "portforward", "proxy", "token", "eviction", "binding"}


def test_editors_grant_nothing_and_leave_limits_nodes_and_namespaces_alone() -> None:
    for where in (_HERE, "everywhere"):
        for verb, thing in set(_may(_user(f"edit {where}"))) - set(_may(_EVERYBODY)):
            changes = verb not in {"get", "list", "watch"}
            assert thing.group != "rbac.authorization.k8s.io"
            assert not (
                changes and thing.resource in {"resourcequotas", "limitranges", "namespaces", "nodes", "bindings"}
            )
            assert not (changes and thing.subresource in {"status", "binding", "finalize"})


def test_administrators_of_a_namespace_change_neither_their_limits_nor_the_cluster() -> None:
    for where in (_HERE, "everywhere"):
        for verb, thing in set(_may(_user(f"admin {where}"))) - set(_may(_EVERYBODY)):
            if verb not in {"get", "list", "watch"}:
                assert thing.namespaced
                assert thing.resource not in {"resourcequotas", "limitranges"}
            assert verb not in {"bind", "escalate"}
            assert thing.resource not in {"nodes", "persistentvolumes", "clusterroles", "clusterrolebindings"}


def test_only_administrators_of_the_cluster_may_do_everything() -> None:
    everything = {(verb, thing) for thing, verbs in _things() for verb in verbs}
    for name, user in _identities().items():
        assert set(_may(user)) != everything, name
    assert set(_may(_user("chief", "system:masters"))) == everything


#: Which roles may do dangerous things, besides members of system:masters.
_DANGEROUS = {
    ("impersonate", "users"): set[str](),
    ("impersonate", "groups"): set[str](),
    ("bind", "clusterroles.rbac.authorization.k8s.io"): set[str](),
    ("escalate", "clusterroles.rbac.authorization.k8s.io"): {
        "rota:controller:role-aggregation",
        "controller clusterrole-aggregation-controller",
    },
    ("create", "clusterrolebindings.rbac.authorization.k8s.io"): set[str](),
    ("create", "pods/exec"): {"edit here", "edit everywhere", "admin here", "admin everywhere"},
    ("create", "pods/binding"): {"rota:scheduler", "system:kube-scheduler", "controller daemon-set-controller"},
    ("create", "bindingbatches.rota.dev"): {"rota:scheduler"},
    ("create", "podstatusbatches.rota.dev"): {"a node"},
    ("create", "whatifs.rota.dev"): set[str](),
    ("get", "secrets"): {
        "edit here", "edit everywhere", "admin here", "admin everywhere", "system:kube-controller-manager",
        "rota:controller:garbage", "rota:controller:namespaces", "controller generic-garbage-collector",
        "controller namespace-controller", "rota:controller:account-secrets",
    },
    ("delete", "nodes"): {
        "rota:controller:garbage", "rota:controller:namespaces", "controller generic-garbage-collector",
        "controller namespace-controller", "controller node-controller",
    },
    ("update", "customresourcedefinitions.apiextensions.k8s.io"): {
        "rota:controller:garbage", "controller generic-garbage-collector",
    },
    ("approve", "signers.certificates.k8s.io"): set[str](),
    ("create", "tokenreviews.authentication.k8s.io"): {
        "a node", "system:kube-controller-manager", "system:kube-scheduler",
    },
}  # fmt: skip


@pytest.mark.parametrize(("verb", "what"), _DANGEROUS)
def test_what_is_dangerous_is_for_few(verb: str, what: str) -> None:
    found = {
        name
        for name, user in _identities().items()
        if any((one, str(thing)) == (verb, what) for one, thing in _may(user))
    }
    assert found == _DANGEROUS[verb, what]


def test_anonymous_users_have_no_access_to_resources() -> None:
    assert not _may(ANONYMOUS)
    assert _paths(ANONYMOUS) == ["/healthz", "/livez", "/readyz", "/version"]
    for verb, path in itertools.product(("post", "put", "delete", "patch"), _PATHS):
        assert not _allowed(Question(user=ANONYMOUS, verb=verb, path=path))
