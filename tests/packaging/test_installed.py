"""Installed on API servers that take no unknown field: by Helm, and by the plain manifests."""

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.packaging import charts
from tests.packaging.charts import CHART, EVERYTHING, NAMESPACE
from tests.packaging.installations import Installation

from rota.testing.live import LiveServer
from rota.testing.servers.kubernetes import StockApiServer, program

pytestmark = [pytest.mark.slow, pytest.mark.stock]

MANIFESTS = charts.PACKAGING / "manifests"
#: As much of the Prometheus operator's as the chart uses.
SERVICE_MONITORS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: ServiceMonitor, plural: servicemonitors}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [endpoints, selector]
            properties:
              podTargetLabels: {type: array, items: {type: string}}
              selector: {type: object, properties: {matchLabels: {type: object, additionalProperties: {type: string}}}}
              endpoints:
                type: array
                items: {type: object, properties: {port: {type: string}, interval: {type: string}}}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[StockApiServer]:
    with StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as stock:
        yield stock


@pytest.fixture
def installation(server: StockApiServer, tmp_path: Path) -> Iterator[Installation]:
    """A namespace to install into; it stays, and what a test has put into it goes."""
    it = Installation(server, tmp_path)
    made = it.kubectl("apply", "--filename", str(MANIFESTS / "00-namespace.yaml"))
    assert not made.returncode, made.stderr
    yield it
    for name in ("batch-controller", "extender", "scheduler", "spot-agent", "spot-controller"):
        it.kubectl("delete", "--filename", str(MANIFESTS / f"{name}.yaml"), "--ignore-not-found", "--wait=false")


def objects(it: Installation) -> set[str]:
    """Kinds and names of all that an installation has made."""
    kinds = (
        "deployments,daemonsets,services,configmaps,secrets,serviceaccounts,poddisruptionbudgets,roles,rolebindings,"
    )
    kinds += "networkpolicies,clusterroles,clusterrolebindings,"
    kinds += "validatingadmissionpolicies,validatingadmissionpolicybindings,"
    kinds += "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    found = it.get(kinds, "", "--all-namespaces", "--selector=app.kubernetes.io/instance=rota")
    return {f"{one['kind']}/{one['metadata']['name']}" for one in found["items"]}


def changed(said: str) -> list[str]:
    """What kubectl changed; it always says so of budgets, whose selector is replaced as a whole, be it the same."""
    lines = [line for line in said.splitlines() if not line.startswith("poddisruptionbudget.policy/")]
    return [line for line in lines if not line.endswith(" unchanged")]


@pytest.mark.helm
def test_helm_installs_changes_and_removes_it(installation: Installation, tmp_path: Path) -> None:
    assert not installation.kubectl("apply", "--filename=-", given=SERVICE_MONITORS).returncode
    established = "--for=condition=Established"
    assert not installation.kubectl("wait", established, "crd/servicemonitors.monitoring.coreos.com").returncode
    values = tmp_path / "values.json"
    values.write_text(json.dumps(EVERYTHING))
    notes = installation.helm("install", "rota", str(CHART), "--values", str(values))
    assert "schedulerName: rota" in notes
    assert "rota spot notice NODE" in notes
    assert "only reports what it would do" in notes
    rendered = {f"{one['kind']}/{one['metadata']['name']}" for one in charts.render(EVERYTHING)}
    assert objects(installation) == rendered - {"ServiceMonitor/rota-metrics"}
    made = installation.get("secret", "rota-extender-tls")["data"]
    installation.helm("upgrade", "rota", str(CHART), "--values", str(values), "--set", "scheduler.replicas=3")
    assert installation.get("deployment", "rota-scheduler")["spec"]["replicas"] == 3
    # whom schedulers trust stays, and the configuration that they were given goes on naming it
    assert installation.get("secret", "rota-extender-tls")["data"] == made
    config = installation.get("configmap", "rota-extender-kube-scheduler")["data"]["kube-scheduler.yaml"]
    assert yaml.safe_load(config)["extenders"][0]["tlsConfig"]["caData"] == made["ca.crt"]
    assert b"BEGIN CERTIFICATE" in base64.b64decode(made["client.crt"])
    installation.helm("uninstall", "rota")
    assert objects(installation) == set()


@pytest.mark.helm
def test_what_is_rendered_has_no_field_that_the_server_does_not_know(installation: Installation) -> None:
    documents = [one for one in charts.render(EVERYTHING) if one["kind"] != "ServiceMonitor"]
    given = yaml.safe_dump_all(documents)
    done = installation.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-", given=given
    )
    assert not done.returncode, done.stderr
    assert len(done.stdout.splitlines()) == len(documents)
    assert done.stderr == ""
    wrong = given.replace("readOnlyRootFilesystem", "readOnlyRootFileSystem")
    done = installation.kubectl("create", "--dry-run=server", "--validate=strict", "--filename=-", given=wrong)
    assert 'unknown field "spec.template.spec.containers[0].securityContext.readOnlyRootFileSystem"' in done.stderr


def test_plain_manifests_are_taken_without_a_warning(installation: Installation) -> None:
    folder = ("--filename", str(MANIFESTS))
    done = installation.kubectl("apply", "--validate=strict", *folder)
    assert (done.returncode, done.stderr) == (0, "")
    # a warning would have come of a pod that the namespace does not allow; and so it comes when the pod is made
    template = installation.get("deployment", "rota-extender")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "a"}}
    create = ("--namespace", NAMESPACE, "create", "--dry-run=server", "--filename=-")
    assert installation.kubectl(*create, given=json.dumps(pod)).returncode == 0
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    assert 'violates PodSecurity "restricted' in installation.kubectl(*create, given=json.dumps(pod)).stderr


def test_our_own_api_server_takes_them_too() -> None:
    with LiveServer() as live:

        def kubectl(*arguments: str) -> "subprocess.CompletedProcess[str]":
            command = [str(program("kubectl")), "--server", live.url, *arguments]
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

        apply = ("apply", "--filename", str(MANIFESTS))
        done = kubectl(*apply, "--validate=strict")
        assert done.returncode == 0, done.stderr
        # Nothing is unknown or invalid; the server only says which protections it does not have.
        unprotected = ("this server has no", "this server evaluates no", "a process of the machine does not have it")
        for line in done.stderr.splitlines():
            assert line.startswith("Warning: ")
            assert any(text in line for text in unprotected), line
        assert not changed(kubectl(*apply, "--validate=false").stdout)
        listed = kubectl("--namespace", NAMESPACE, "get", "deployments", "--output=name").stdout.split()
        deployed = ("batch-controller", "extender", "scheduler", "spot-controller")
        assert listed == [f"deployment.apps/rota-{one}" for one in deployed]
