"""kubectl auth: what it reports for a role is what kubectl then can do, for every role."""

import re

import pytest

from rota.testing.kubectl import Kubectl
from rota.testing.live import LiveServer

pytestmark = [pytest.mark.slow, pytest.mark.kubectl]

#: What is tried: verb and resource for `can-i`, and the command that does it.
_TRIES = {
    ("list", "pods"): ("get", "pods"),
    ("list", "secrets"): ("get", "secrets"),
    ("create", "configmaps"): ("create", "configmap", "made", "--dry-run=server"),
    ("delete", "configmaps/there"): ("delete", "configmap", "there", "--dry-run=server"),
    ("create", "roles.rbac.authorization.k8s.io"): (
        "create", "role", "made", "--verb=get", "--resource=pods", "--dry-run=server",
    ),
    ("list", "nodes"): ("get", "nodes"),
    ("get", "/metrics"): ("get", "--raw=/metrics"),
}  # fmt: skip
_MAY: dict[str, set[tuple[str, str]]] = {
    "nothing": set(),
    "view": {("list", "pods")},
    "edit": {("list", "pods"), ("list", "secrets"), ("create", "configmaps"), ("delete", "configmaps/there")},
    "admin": set(_TRIES) - {("list", "nodes"), ("get", "/metrics")},
    "cluster-admin": set(_TRIES),
    "system:kube-scheduler": {("list", "pods"), ("list", "nodes")},
    "system:kube-controller-manager": {("list", "pods"), ("list", "secrets"), ("list", "nodes")},
    "rota:scheduler": {("list", "pods"), ("list", "nodes")},
    "rota:controller:garbage": {
        ("list", "pods"), ("list", "secrets"), ("delete", "configmaps/there"), ("list", "nodes"),
    },
    "system:monitoring": {("get", "/metrics")},
}  # fmt: skip
_GROUPS = frozenset({"system:monitoring"})
_USERS = frozenset(
    {"system:kube-scheduler", "system:kube-controller-manager", "rota:scheduler", "rota:controller:garbage"}
)


def _as(kubectl: Kubectl, role: str) -> list[str]:
    """The arguments that make kubectl impersonate a user with a role in its namespace, or a system user."""
    if role in _GROUPS:
        return ["--as=somebody", f"--as-group={role}", "--as-group=system:authenticated"]
    if role in _USERS:
        return [f"--as={role}"]
    user = f"{role}-in-{kubectl.namespace}"
    if role == "cluster-admin":
        kubectl("create", "clusterrolebinding", user, f"--clusterrole={role}", f"--user={user}")
    elif role != "nothing":
        kubectl("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}")
    return [f"--as={user}"]


@pytest.mark.parametrize("role", _MAY)
def test_can_i_says_what_then_happens(live: LiveServer, kubectl: Kubectl, role: str) -> None:
    live.create(f"/api/v1/namespaces/{kubectl.namespace}/configmaps", {"metadata": {"name": "there"}})
    identity = _as(kubectl, role)
    for (verb, what), command in _TRIES.items():
        said = kubectl.run("auth", "can-i", verb, what, *identity)
        expected = (verb, what) in _MAY[role]
        assert (said.out, said.code) == (("yes\n", 0) if expected else ("no\n", 1)), (verb, what, said)
        done = kubectl.run(*command, *identity)
        assert (done.code == 0) is expected, (verb, what, done)
        if not expected:
            assert "(Forbidden)" in done.err or "forbidden" in done.err, done


def test_the_list_shows_all_rights_and_no_others(kubectl: Kubectl) -> None:
    identity = _as(kubectl, "view")
    listed = kubectl("auth", "can-i", "--list", *identity)
    rows = {re.split(r"\s{2,}", line.strip())[0]: line for line in listed.splitlines()[1:]}
    assert rows["pods"].endswith("[get list watch]")
    assert rows["deployments.apps"].endswith("[get list watch]")
    assert rows["selfsubjectaccessreviews.authorization.k8s.io"].endswith("[create]")
    assert "secrets" not in rows
    assert "*.*" not in rows


def test_a_refusal_reads_as_everywhere(kubectl: Kubectl) -> None:
    refused = kubectl.run("get", "pods", "--as=x")
    assert refused.err == (
        'Error from server (Forbidden): pods is forbidden: User "x" cannot list resource "pods" in API group "" '
        f'in the namespace "{kubectl.namespace}"\n'
    )


def test_whoami_shows_the_user_of_kubectl(kubectl: Kubectl) -> None:
    shown = kubectl.run("auth", "whoami", "--output=json", "--as=jane", "--as-group=developers")
    if shown.code:  # before 1.28 kubectl asks in versions that upstream has given up as well
        assert "the selfsubjectreviews API is not enabled in the cluster" in shown.err
        return
    assert '"username": "jane"' in shown.out
    assert '"developers"' in shown.out
    assert '"system:authenticated"' in shown.out


def test_reconcile_makes_roles_and_bindings(kubectl: Kubectl) -> None:
    role = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: reader, namespace: {kubectl.namespace}}}
rules: [{{apiGroups: [""], resources: [pods], verbs: [get]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: reader, namespace: {kubectl.namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}}]
"""
    kubectl("auth", "reconcile", "--filename=-", stdin=role)
    assert kubectl("auth", "can-i", "get", "pods", "--as=jane") == "yes\n"
    more = role.replace("verbs: [get]", "verbs: [list]")
    kubectl("auth", "reconcile", "--filename=-", stdin=more)
    for verb in ("get", "list"):
        assert kubectl("auth", "can-i", verb, "pods", "--as=jane") == "yes\n"
