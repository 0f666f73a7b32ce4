"""schemathesis generates requests from Rota's OpenAPI documents: everything they allow is answered without a 5xx.

Each request is aimed at objects that exist, so that it meets the rules of its kind and not only a 404.
"""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.core.result import Ok

from rota.testing import manifests
from rota.testing.live import LiveServer

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "manifests"
PATIENCE_S = 60.0
#: Those whose kinds have rules of their own; all others share their code with these.
DOCUMENTS = [
    "api/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/apps/v1",
    "apis/authorization.k8s.io/v1",
    "apis/batch/v1",
    "apis/coordination.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/rota.dev/v1alpha1",
    "apis/scheduling.k8s.io/v1",
]
#: Few for each operation, because there are some four hundred; the same in every run.
FEW = settings(
    max_examples=2, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def namespace(live: LiveServer) -> str:
    """A namespace where every usual kind has an object of the name `target`."""
    namespace = live.namespace()
    _, groups = live.request("GET", "/apis")
    collections = {
        (version["groupVersion"], resource["kind"]): (f"/apis/{version['groupVersion']}", resource)
        for group in groups["groups"]
        for version in group["versions"]
        for resource in live.request("GET", f"/apis/{version['groupVersion']}")[1]["resources"]
        if "/" not in resource["name"]
    }
    collections |= {
        ("v1", resource["kind"]): ("/api/v1", resource)
        for resource in live.request("GET", "/api/v1")[1]["resources"]
        if "/" not in resource["name"]
    }
    examples = [one for path in sorted(FOLDER.glob("*.yaml")) for one in yaml.safe_load_all(path.read_text())]
    for one in [*examples, manifests.node("target")]:
        base, resource = collections[one["apiVersion"], one["kind"]]
        if one["kind"] != "CustomResourceDefinition":
            one["metadata"]["name"] = "target"
        within = f"/namespaces/{namespace}" if resource["namespaced"] else ""
        code, answer = live.request("POST", f"{base}{within}/{resource['name']}", one)
        assert code in {201, 409}, answer
    return namespace


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_request_that_a_document_describes_breaks_the_server(
    live: LiveServer, namespace: str, document: str
) -> None:
    _, index = live.request("GET", "/openapi/v3")
    _, described = live.request("GET", index["paths"][document]["serverRelativeURL"])
    refusals: list[str] = []
    count = 0
    for found in schemathesis.openapi.from_dict(described).get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()

        @FEW
        @seed(20)
        @given(case=operation.as_strategy())
        def ask(case: schemathesis.Case[Any]) -> None:
            nonlocal count
            count += 1
            _aim(case, namespace)
            answer = case.call(base_url=live.url, timeout=PATIENCE_S)
            # upstream's answer to a version that is yet to come
            late = answer.status_code == 504 and "resourceVersion" in case.query
            if answer.status_code >= 500 and not late:
                refusals.append(f"{case.method} {case.path} {case.query} {case.body!r}: {answer.text}")
            elif answer.status_code >= 400:
                assert answer.json()["code"] == answer.status_code

        ask()
    assert refusals == []
    assert count > 0


def _aim(case: schemathesis.Case[Any], namespace: str) -> None:
    """Point a request at what exists, and keep it from being a stream."""
    case.query.pop("watch", None)
    if case.method == "DELETE":
        case.query["dryRun"] = "All"
    for name, value in (("namespace", namespace), ("name", "target")):
        if name in case.path_parameters:
            case.path_parameters[name] = value
    if isinstance(case.body, dict) and case.method in {"POST", "PUT"}:
        for name in ("apiVersion", "kind"):
            case.body.pop(name, None)
        metadata: Any = case.body.setdefault("metadata", {})
        if isinstance(metadata, dict):
            for name in ("namespace", "resourceVersion", "uid"):
                metadata.pop(name, None)
            metadata["name"] = "target"
