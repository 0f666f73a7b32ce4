"""Parts beside a cluster that is not there, or that does not let them in: one line that says what to do."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota import assembly
from rota.cli import extender, scheduler, spot, spot_controller
from rota.client import client_factory
from rota.client.endpoints import Endpoint
from rota.client.rights import MissingRights
from rota.client.verbs import Client
from rota.kit import system
from rota.kit.errors import UserError
from rota.testing.masters import Master

pytestmark = pytest.mark.slow

PARTS: dict[str, Callable[[list[str]], Any]] = {
    "scheduler": lambda options: scheduler.command(options, standalone_mode=False),
    "extender": lambda options: extender.command([*options, "--listen", "127.0.0.1:0"], standalone_mode=False),
    "spot-controller": lambda options: spot_controller.command(options, standalone_mode=False),
    "spot-agent": lambda options: spot.command(["agent", "--node", "n1", *options], standalone_mode=False),
}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """The administrator's way into a cluster that asks who one is."""
    folder = tmp_path_factory.mktemp("master")
    with Master(folder / "data", store_url=f"sqlite:///{folder}/store", keys=folder / "keys") as master:
        yield master.endpoint()


@pytest.fixture(scope="module")
def kubeconfig(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A file for a client with a token."""
    folder = tmp_path_factory.mktemp("kubeconfigs")

    def write(token: str) -> str:
        path = folder / f"{abs(hash(token))}.conf"
        authority = folder / "ca.crt"
        authority.write_bytes(endpoint.certificate_authority or b"")
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {"name": "c", "cluster": {"server": endpoint.server, "certificate-authority": str(authority)}}
            ],
            "users": [{"name": "u", "user": {"token": token}}],
        }
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return write


@pytest.fixture(scope="module")
def restricted(endpoint: Endpoint, kubeconfig: Callable[[str], str]) -> str:
    """The kubeconfig of an account that may list nodes, and nothing else."""

    async def granted(client: Client) -> str:
        group, account = "rbac.authorization.k8s.io", {"name": "restricted", "namespace": "default"}
        await client.create(("", "v1", "serviceaccounts"), {"metadata": account}, namespace="default")
        rules = [{"verbs": ["list"], "resources": ["nodes"], "apiGroups": [""]}]
        await client.create((group, "v1", "clusterroles"), {"metadata": {"name": "lists-nodes"}, "rules": rules})
        binding = {
            "metadata": {"name": "restricted"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "lists-nodes"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        }
        await client.create((group, "v1", "clusterrolebindings"), binding)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = "/api/v1/namespaces/default/serviceaccounts/restricted/token"
        answer = await client.request(
            "POST", path, body=yaml.safe_dump(request).encode(), content_type="application/yaml"
        )
        return str(yaml.safe_load(answer)["status"]["token"])

    async def work() -> str:
        clock, rng = system.SystemClock(), system.rng()
        async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
            return await granted(client)

    return kubeconfig(assembly.run(work()))


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        (
            "scheduler",
            ["watch nodes", "create pods/binding", "list, watch, get pods", "get, update leases.coordination"],
        ),
        ("extender", ["watch nodes; list, watch pods"]),
        ("spot-controller", ["get, watch, patch nodes", "create pods/eviction", "list, watch, delete pods"]),
        ("spot-agent", ["get, patch nodes n1"]),
    ],
)
def test_missing_rights_name_the_user_and_the_manifest(restricted: str, part: str, missing: list[str]) -> None:
    with pytest.raises(MissingRights) as told:
        PARTS[part](["--kubeconfig", restricted])
    line = str(told.value)
    assert "\n" not in line
    assert "system:serviceaccount:default:restricted may not" in line
    assert line.endswith(f"; grant the roles of packaging/manifests/{part}.yaml")
    for one in missing:
        assert one in line


@pytest.mark.parametrize("part", PARTS)
def test_an_unknown_token_gives_a_one_line_error(kubeconfig: Callable[[str], str], part: str) -> None:
    with pytest.raises(UserError) as told:
        PARTS[part](["--kubeconfig", kubeconfig("expired-or-wrong")])
    assert "does not accept your credentials" in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_cluster_gives_a_one_line_error(part: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as told:
        PARTS[part](["--server", "http://127.0.0.1:1"])
    assert "http://127.0.0.1:1 does not answer: Connection refused" in str(told.value)
    with pytest.raises(UserError, match="there is no kubeconfig at"):
        PARTS[part](["--kubeconfig", str(tmp_path / "none")])
    broken = tmp_path / "broken"
    broken.write_text("clusters: 7\n")
    with pytest.raises(UserError) as wrong:
        PARTS[part](["--kubeconfig", str(broken)])
    assert str(broken) in str(wrong.value)
