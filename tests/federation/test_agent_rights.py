"""What the agent of a pull member may do in the control plane: recorded in full, everything else is refused.

`agent_rights.txt` is rewritten by REWRITE_MATRIX=1; the properties below limit what a change may allow.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from rota.api import scheme
from rota.api.kinds import ALL_VERBS
from rota.api.users import AUTHENTICATED, User
from rota.apiserver.authorization.policy import objects
from rota.apiserver.authorization.rbac import Policy
from rota.apiserver.interfaces import Question
from rota.federation import kinds, object_names
from rota.federation.control import pull_members

_RECORD = Path(__file__).with_name("agent_rights.txt")
_OWN, _OTHER = "m1", "m2"
_SPACES = {
    "its execution namespace": object_names.execution_space(_OWN),
    "another execution namespace": object_names.execution_space(_OTHER),
    "the namespace of clusters": kinds.CLUSTER_NAMESPACE,
    "default": "default",
    "cluster-wide": "",
}
_VERBS = (*ALL_VERBS, "impersonate", "bind", "escalate")


def _agent(cluster: str) -> User:
    space = kinds.CLUSTER_NAMESPACE
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{space}", AUTHENTICATED)
    return User(name=f"system:serviceaccount:{space}:{cluster}", groups=groups)


def _policy() -> Policy:
    policy = Policy()
    agents = [obj for cluster in (_OWN, _OTHER) for _, obj in pull_members.account_objects(cluster)]
    for one in (*objects.all_defaults(), *agents):
        if one["kind"] in ("Lease", "ServiceAccount"):
            continue
        put = policy.put_binding if "roleRef" in one else policy.put_role
        put(one["metadata"].get("namespace", ""), one["metadata"]["name"], one)
    return policy


def things() -> Iterator[tuple[str, str, str, bool]]:
    """Group, resource, subresource, and whether it is in namespaces."""
    for resource in scheme.builtin():
        for part in ("", *resource.subresources):
            yield resource.group, resource.plural, part, resource.namespaced
    for definition in kinds.definitions():
        spec = definition["spec"]
        for part in ("", "status", "proxy"):
            yield spec["group"], spec["names"]["plural"], part, spec["scope"] == "Namespaced"


def _allowed(policy: Policy, user: User) -> set[tuple[str, str, str, str]]:
    """Verb, resource, place and the name of the object."""
    found = set()
    for group, plural, part, namespaced in things():
        for where, namespace in _SPACES.items():
            if not namespaced and namespace:
                continue
            for name in (_OWN, _OTHER, ""):
                for verb in _VERBS:
                    question = Question(
                        user=user,
                        verb=verb,
                        group=group,
                        resource=plural,
                        subresource=part,
                        namespace=namespace,
                        name=name,
                    )
                    if policy.decide(question).allowed:
                        resource = f"{plural}.{group}" if group else plural
                        found.add((verb, f"{resource}/{part}" if part else resource, where, name or "any"))
    return found


def _described() -> str:
    policy = _policy()
    common = _allowed(policy, User(name="system:serviceaccount:default:none", groups=_agent(_OWN).groups))
    lines: dict[tuple[str, str, str], list[str]] = {}
    for verb, resource, where, name in sorted(_allowed(policy, _agent(_OWN)) - common):
        lines.setdefault((resource, where, name), []).append(verb)
    return "".join(
        f"{resource} in {where}, name {name}: {' '.join(verbs)}\n" for (resource, where, name), verbs in lines.items()
    )


def test_an_agent_may_do_what_is_recorded_and_nothing_else() -> None:
    described = _described()
    if os.environ.get("REWRITE_MATRIX"):
        _RECORD.write_text(described)
    assert described == _RECORD.read_text()


def test_an_agent_may_touch_nothing_of_another_cluster() -> None:
    policy = _policy()
    common = _allowed(policy, User(name="system:serviceaccount:default:none", groups=_agent(_OWN).groups))
    for verb, resource, where, name in _allowed(policy, _agent(_OWN)) - common:
        assert where != "another execution namespace"
        if verb not in ("get", "list", "watch"):
            assert where == "its execution namespace" or name == _OWN, (verb, resource, where, name)
        assert not resource.startswith("secrets")
