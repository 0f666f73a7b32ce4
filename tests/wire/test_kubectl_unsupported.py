"""What kubectl shows of features that the server does not enforce or does not have."""

import pytest

from rota.testing import manifests
from rota.testing.kubectl import Kubectl, documents

pytestmark = [pytest.mark.slow, pytest.mark.kubectl]


def test_kubectl_prints_the_warning_of_an_object_that_nothing_acts_on(kubectl: Kubectl) -> None:
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "closed"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    }
    done = kubectl.run("apply", "-f=-", stdin=documents(policy))
    assert done.code == 0
    assert "Warning: network policies are not enforced" in done.err


def test_kubectl_debug_is_refused_with_a_remedy_that_works(kubectl: Kubectl) -> None:
    kubectl.apply(manifests.pod("p"))
    done = kubectl.run("debug", "p", "--image=any", "--", "true")
    assert done.code == 1
    assert "run a command in it with kubectl exec, or work on a copy of it with" in done.err
    kubectl("debug", "p", "--image=any", "--copy-to=q", "--container=more", "--", "true")
    assert kubectl("get", "pod", "q", "-o=jsonpath={.spec.containers[*].name}").split()[-1] == "more"
