"""The oldest and the newest available kubectl read the server's OpenAPI documents."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.testing.api import in_background
from rota.testing.kubectl import Kubectl
from rota.testing.servers import binaries

pytestmark = pytest.mark.slow

_FLAVORS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "flavors.shop.example.com"},
    "spec": {
        "group": "shop.example.com",
        "scope": "Cluster",
        "names": {"plural": "flavors", "kind": "Flavor", "shortNames": ["fl"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "additionalPrinterColumns": [{"name": "Sweet", "type": "integer", "jsonPath": ".spec.sweetness"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["sweetness"],
                                "properties": {
                                    "sweetness": {
                                        "type": "integer",
                                        "maximum": 9,
                                        "description": "How much sugar there is.",
                                    }
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with in_background() as address:
        yield address


#: The oldest and the newest on this machine; without any, one name to report the missing part by.
_PROGRAMS = list(dict.fromkeys((*binaries.kubectls()[:1], *binaries.kubectls()[-1:]))) or [Path("kubectl")]


@pytest.fixture(params=_PROGRAMS, ids=lambda path: path.name)
def kubectl_program(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def kubectl(kubectl_program: Path, url: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl_program, url=url, namespace="default", home=tmp_path)


def test_kubectl_explains_a_field_with_its_type_and_text(kubectl: Kubectl) -> None:
    text = kubectl("explain", "pods.spec.containers.ports")
    assert "FIELD: ports <[]ContainerPort>" in text
    assert "containerPort\t<integer> -required-" in text
    assert "Number of port to expose on the pod's IP address." in text


def test_kubectl_explains_kinds_of_other_groups(kubectl: Kubectl) -> None:
    text = kubectl("explain", "deploy.spec.strategy.rollingUpdate")
    assert "GROUP:      apps" in text
    assert "maxSurge\t<IntOrString>" in text


def test_kubectl_lists_resources_with_their_short_names(kubectl: Kubectl) -> None:
    text = kubectl("api-resources", "--api-group=batch", "--no-headers")
    assert [line.split() for line in text.splitlines()] == [
        ["cronjobs", "cj", "batch/v1", "true", "CronJob"],
        ["jobs", "batch/v1", "true", "Job"],
    ]


def test_kubectl_knows_a_kind_as_soon_as_it_is_established(kubectl: Kubectl) -> None:
    kubectl.apply(_FLAVORS)
    try:
        kubectl("wait", "--for=condition=Established", "crd/flavors.shop.example.com", "--timeout=10s")
        assert "sweetness\t<integer> -required-\n    How much sugar there is." in kubectl("explain", "flavors.spec")
        kubectl.apply(
            {"apiVersion": "shop.example.com/v1", "kind": "Flavor", "metadata": {"name": "f"}, "spec": {"sweetness": 5}}
        )
        assert kubectl("get", "fl").split() == ["NAME", "SWEET", "f", "5"]
        refused = kubectl.run("patch", "flavor", "f", "--type=merge", '--patch={"spec":{"sweetness":10}}')
        assert refused.code == 1
        assert "spec.sweetness in body should be less than or equal to 9" in refused.err
    finally:
        kubectl("delete", "crd", "flavors.shop.example.com")
