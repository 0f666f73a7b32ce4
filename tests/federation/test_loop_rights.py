"""What each loop of a federation may do in the control plane: recorded in full, everything else is refused.

`loop_rights.txt` is rewritten by REWRITE_MATRIX=1; the properties below limit what a change may allow.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.federation.test_agent_rights import things

from rota.api.kinds import ALL_VERBS
from rota.api.users import AUTHENTICATED, User
from rota.apiserver.authorization.policy import objects
from rota.apiserver.authorization.rbac import Policy
from rota.apiserver.interfaces import Question
from rota.federation import kinds, object_names
from rota.federation.control import accounts, pull_members

_RECORD = Path(__file__).with_name("loop_rights.txt")
_SPACES = {
    "execution namespaces": object_names.execution_space("m1"),
    "the namespace of clusters": kinds.CLUSTER_NAMESPACE,
    "kube-system": "kube-system",
    "other namespaces": "default",
    "cluster-wide": "",
}
_VERBS = (*ALL_VERBS, "impersonate", "bind", "escalate", "approve", "sign")
_CHANGES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_CONNECTS = ("clusters", "members", "capacity", "autoscalers")
#: Loops for which templates may be of any kind.
_ANY_KIND = ("detector", "works", "dependencies", "autoscalers", "cron autoscalers")


@pytest.fixture(scope="module")
def policy() -> Policy:
    found = Policy()
    for one in (*objects.all_defaults(), *(obj for _, obj in accounts.roles())):
        put = found.put_binding if "roleRef" in one else found.put_role
        put(one["metadata"].get("namespace", ""), one["metadata"]["name"], one)
    return found


def _allowed(policy: Policy, user: User, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Verb, resource and place."""
    for group, plural, part, namespaced in things():
        resource = f"{plural}.{group}" if group else plural
        for where, namespace in _SPACES.items():
            if bool(namespace) != namespaced:
                continue
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
                    yield verb, f"{resource}/{part}" if part else resource, where


def _own(policy: Policy, loop: str) -> set[tuple[str, str, str]]:
    """What a loop may do beyond every user."""
    every = set(_allowed(policy, User(name="nobody", groups=(AUTHENTICATED,))))
    return set(_allowed(policy, accounts.user(loop))) - every


def test_a_loop_may_do_what_is_recorded_and_nothing_else(policy: Policy) -> None:
    lines = []
    for loop in accounts.GRANTS:
        lines.append(f"{loop}\n")
        places: dict[tuple[str, str], list[str]] = {}
        if loop in _ANY_KIND:
            grants = [one for one in accounts.GRANTS[loop] if "*" in one.resources]
            lines += [f"  every resource ({one.resources}): {one.verbs}\n" for one in grants]
        wide = {verb for one in accounts.GRANTS[loop] if one.resources == "*" for verb in one.verbs.split()}
        for verb, resource, where in sorted(_own(policy, loop)):
            if verb not in wide and not (loop == "works" and verb == "patch" and resource.endswith("/status")):
                places.setdefault((resource, where), []).append(verb)
        lines += [f"  {resource} in {where}: {' '.join(verbs)}\n" for (resource, where), verbs in places.items()]
    described = "".join(lines)
    if os.environ.get("REWRITE_MATRIX"):
        _RECORD.write_text(described)
    assert described == _RECORD.read_text()


@pytest.mark.parametrize("loop", accounts.GRANTS)
def test_no_loop_has_more_than_its_task_needs(policy: Policy, loop: str) -> None:
    for verb, resource, where in _own(policy, loop):
        assert verb not in ("impersonate", "bind", "escalate", "approve", "sign", "deletecollection"), resource
        if resource == "secrets" and verb in ("get", "list", "watch") and loop not in _ANY_KIND:
            assert loop in _CONNECTS, "credentials of members are for loops that connect to them"
            assert (verb, where) == ("get", "the namespace of clusters")
        if resource.endswith("rbac.authorization.k8s.io") and verb in _CHANGES and loop not in _ANY_KIND:
            assert loop == "clusters", "only the loop that admits agents writes roles"
        if loop in _ANY_KIND and verb in ("create", "update", "delete"):
            own = resource.endswith(".work.karmada.io") or resource == "memberreports.federation.rota.dev"
            assert own, "templates are created and deleted by their users"


def test_what_an_agent_is_granted_is_held_by_the_loop_that_grants_it(policy: Policy) -> None:
    holder = accounts.user("clusters")
    for _, obj in pull_members.account_objects("m1"):
        for rule in obj.get("rules") or ():
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    plural, _, part = resource.partition("/")
                    for verb in rule["verbs"]:
                        question = Question(
                            user=holder,
                            verb=verb,
                            group=group,
                            resource=plural,
                            subresource=part,
                            namespace=obj["metadata"].get("namespace", ""),
                            name=(rule.get("resourceNames") or [""])[0],
                        )
                        assert policy.decide(question).allowed, (resource, verb)
