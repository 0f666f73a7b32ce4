"""The index of roles and bindings decides as the evaluation of every binding would."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.apiserver.authorization import rules
from rota.apiserver.authorization.rbac import Policy, RoleRef
from rota.apiserver.interfaces import Decision, Question, User

_ALICE = User(name="alice", groups=("system:authenticated",))


def _rule(verbs: str, groups: str, resources: str, names: str = "") -> dict[str, Any]:
    rule = {"verbs": verbs.split(","), "apiGroups": groups.split(","), "resources": resources.split(",")}
    return rule | ({"resourceNames": names.split(",")} if names else {})


def _role(*found: dict[str, Any]) -> dict[str, Any]:
    return {"rules": list(found)}


def _binding(role: str, *subjects: tuple[str, ...], kind: str = "ClusterRole") -> dict[str, Any]:
    listed = [{"kind": one[0], "name": one[1], **({"namespace": one[2]} if len(one) > 2 else {})} for one in subjects]
    return {"roleRef": {"kind": kind, "name": role}, "subjects": listed}


def _ask(verb: str, resource: str, *, user: User = _ALICE, group: str = "", **more: Any) -> Question:
    return Question(user=user, verb=verb, group=group, resource=resource, **more)


def _reading(subject: tuple[str, ...], *, namespace: str = "") -> Policy:
    policy = Policy()
    policy.put_role("", "reader", _role(_rule("get,list", "", "pods,pods/log")))
    policy.put_binding(namespace, "readers", _binding("reader", subject))
    return policy


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        (("User", "alice"), _ALICE),
        (("Group", "system:authenticated"), _ALICE),
        (("ServiceAccount", "builder", "ci"), User(name="system:serviceaccount:ci:builder")),
    ],
)
def test_a_subject_may_be_a_user_a_group_or_a_service_account(subject: tuple[str, ...], user: User) -> None:
    policy = _reading(subject)
    assert policy.decide(_ask("list", "pods", user=user, namespace="x")).allowed
    assert not policy.decide(_ask("list", "pods", user=User(name="mallory"), namespace="x")).allowed


def test_a_service_account_without_a_namespace_is_of_the_bindings_namespace() -> None:
    policy = _reading(("ServiceAccount", "builder"), namespace="ci")
    assert policy.decide(
        _ask("get", "pods", user=User(name="system:serviceaccount:ci:builder"), namespace="ci")
    ).allowed
    guest = _reading(("ServiceAccount", "builder", "other"), namespace="ci")
    assert guest.decide(
        _ask("get", "pods", user=User(name="system:serviceaccount:other:builder"), namespace="ci")
    ).allowed
    assert not guest.decide(
        _ask("get", "pods", user=User(name="system:serviceaccount:ci:builder"), namespace="ci")
    ).allowed
    cluster_wide = _reading(("ServiceAccount", "builder"))
    assert not cluster_wide.decide(_ask("get", "pods", user=User(name="system:serviceaccount::builder"))).allowed


def test_a_role_binding_grants_nothing_outside_its_namespace() -> None:
    policy = _reading(("User", "alice"), namespace="dev")
    assert policy.decide(_ask("list", "pods", namespace="dev")).allowed
    assert not policy.decide(_ask("list", "pods", namespace="prod")).allowed
    assert not policy.decide(_ask("list", "pods")).allowed


def test_a_resource_does_not_include_its_subresources_nor_they_it() -> None:
    policy = _reading(("User", "alice"))
    assert policy.decide(_ask("get", "pods", subresource="log")).allowed
    assert not policy.decide(_ask("get", "pods", subresource="exec")).allowed
    policy.put_role("", "reader", _role(_rule("*", "*", "*/scale")))
    assert policy.decide(_ask("update", "deployments", group="apps", subresource="scale")).allowed
    assert not policy.decide(_ask("update", "deployments", group="apps")).allowed


def test_names_limit_a_rule_to_objects_and_leave_collections_out() -> None:
    policy = _reading(("User", "alice"))
    policy.put_role("", "reader", _role(_rule("get,list,create", "", "configmaps", "a,b")))
    assert policy.decide(_ask("get", "configmaps", name="a")).allowed
    assert policy.decide(_ask("list", "configmaps", name="b")).allowed
    assert not policy.decide(_ask("get", "configmaps", name="c")).allowed
    assert not policy.decide(_ask("list", "configmaps")).allowed
    assert not policy.decide(_ask("create", "configmaps")).allowed


@pytest.mark.parametrize(
    ("pattern", "path", "allowed"),
    [
        ("/healthz", "/healthz", True),
        ("/healthz", "/healthz/ping", False),
        ("/api/*", "/api/v1", True),
        ("/api/*", "/api", False),
        ("*", "/anything", True),
    ],
)
def test_paths_match_as_they_are_or_by_their_beginning(pattern: str, path: str, allowed: bool) -> None:
    policy = _reading(("User", "alice"))
    policy.put_role("", "reader", {"rules": [{"verbs": ["get"], "nonResourceURLs": [pattern]}]})
    assert policy.decide(Question(user=_ALICE, verb="get", path=path)).allowed is allowed
    assert not policy.decide(Question(user=_ALICE, verb="post", path=path)).allowed


def test_a_verdict_names_the_binding_the_role_and_the_subject() -> None:
    policy = _reading(("ServiceAccount", "builder"), namespace="ci")
    builder = User(name="system:serviceaccount:ci:builder")
    verdict = policy.decide(_ask("get", "pods", user=builder, namespace="ci"))
    assert verdict.reason == (
        'RBAC: allowed by RoleBinding "readers/ci" of ClusterRole "reader" to ServiceAccount "builder/ci"'
    )
    policy.put_binding("", "all", _binding("reader", ("User", "nobody"), ("User", builder.name)))
    verdict = policy.decide(_ask("get", "pods", user=builder, namespace="ci"))
    assert verdict.reason == (
        'RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to User "system:serviceaccount:ci:builder"'
    )


def test_a_binding_of_a_missing_role_says_so_and_grants_nothing() -> None:
    policy = Policy()
    policy.put_binding("", "a", _binding("gone", ("User", "alice")))
    verdict = policy.decide(_ask("get", "pods", namespace="dev"))
    assert verdict.decision is Decision.NO_OPINION
    assert verdict.reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'
    policy.put_binding("dev", "b", _binding("lost", ("User", "alice"), kind="Role"))
    verdict = policy.decide(_ask("get", "pods", namespace="dev"))
    assert verdict.reason == (
        'RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
        'role.rbac.authorization.k8s.io "lost" not found]'
    )


def test_every_change_counts_at_once() -> None:
    policy = _reading(("User", "alice"))
    question = _ask("list", "pods")
    assert policy.decide(question).allowed
    policy.put_binding("", "readers", _binding("reader", ("User", "bob")))
    assert not policy.decide(question).allowed
    policy.put_binding("", "readers", _binding("reader", ("User", "alice")))
    policy.put_role("", "reader", _role(_rule("get", "", "pods")))
    assert not policy.decide(question).allowed
    policy.put_role("", "reader", None)
    assert policy.rules_of(RoleRef("ClusterRole", "reader"), "") is None
    policy.put_binding("", "readers", None)
    assert policy.decide(_ask("get", "pods")).reason == ""


_words = st.lists(st.sampled_from(["*", "a", "b"]), min_size=1, max_size=2).map(",".join)
_resources = st.lists(st.sampled_from(["*", "r", "s", "r/x", "*/x"]), min_size=1, max_size=2).map(",".join)
_names = st.sampled_from(["", "n", "m,n"])
_rules = st.builds(_rule, _words, _words, _resources, _names)
_roles = st.dictionaries(
    st.tuples(st.sampled_from(["", "dev"]), st.sampled_from(["one", "two"])), st.lists(_rules, max_size=3)
)
_subjects = st.sampled_from(
    [("User", "alice"), ("User", "bob"), ("Group", "g"), ("ServiceAccount", "s"), ("ServiceAccount", "s", "dev")]
)
_bindings = st.dictionaries(
    st.tuples(st.sampled_from(["", "dev", "prod"]), st.sampled_from(["x", "y", "z"])),
    st.tuples(
        st.sampled_from(["Role", "ClusterRole"]), st.sampled_from(["one", "two"]), st.lists(_subjects, max_size=3)
    ),
)
_users = st.sampled_from(
    [User(name="alice"), User(name="bob", groups=("g", "h")), User(name="system:serviceaccount:dev:s", groups=("g",))]
)
_questions = st.builds(
    Question,
    user=_users,
    verb=st.sampled_from(["a", "c"]),
    group=st.sampled_from(["a", "c"]),
    resource=st.sampled_from(["r", "s", "t"]),
    subresource=st.sampled_from(["", "x"]),
    namespace=st.sampled_from(["", "dev", "prod"]),
    name=st.sampled_from(["", "n", "o"]),
)


def _naively(roles: Any, bindings: Any, question: Question) -> bool:
    """Evaluate every rule of every binding."""
    for (namespace, _), (kind, name, subjects) in bindings.items():
        if namespace and namespace != question.namespace:
            continue
        if kind == "Role" and not namespace:
            continue
        role = roles.get((namespace if kind == "Role" else "", name), [])
        for subject in subjects:
            home = subject[2] if len(subject) > 2 else namespace
            applies = {
                "User": question.user.name == subject[1],
                "Group": subject[1] in question.user.groups,
                "ServiceAccount": bool(home) and question.user.name == f"system:serviceaccount:{home}:{subject[1]}",
            }[subject[0]]
            if applies and any(rules.allows(rules.Rule.from_wire(rule), question) for rule in role):
                return True
    return False


@pytest.mark.slow
@given(_roles, _bindings, st.lists(_questions, min_size=1, max_size=8), st.data())
def test_the_index_decides_as_a_look_at_every_rule_would(
    roles: Any, bindings: Any, questions: list[Question], data: st.DataObject
) -> None:
    policy = Policy()
    for (namespace, name), found in roles.items():
        policy.put_role(namespace, name, _role(*found))
    for (namespace, name), (kind, role, subjects) in bindings.items():
        policy.put_binding(namespace, name, _binding(role, *subjects, kind=kind))
    for question in questions:
        assert policy.decide(question).allowed is _naively(roles, bindings, question)
    if bindings:
        namespace, name = data.draw(st.sampled_from(sorted(bindings)))
        policy.put_binding(namespace, name, None)
        del bindings[namespace, name]
    for question in questions:
        assert policy.decide(question).allowed is _naively(roles, bindings, question)
