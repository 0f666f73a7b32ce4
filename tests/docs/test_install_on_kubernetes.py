"""docs/howto/install-on-kubernetes.md, followed on a stock control plane with nodes that only say what they run.

Pods run nothing there, so the parts are started beside the cluster, with the account and the arguments of their pods.
"""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.docs import following
from tests.packaging.installations import Installation
from tests.stock.clusters import PODS, cluster

from rota.testing import manifests
from rota.testing.servers import binaries
from rota.testing.servers.kubernetes import ControllerManager, Scheduler, StockApiServer, program

pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.helm, pytest.mark.timeout(300)]

PAGE = "install-on-kubernetes.md"
REPOSITORY = following.HOWTO.parents[1]
CAPACITY = "node.kubernetes.io/capacity"


@contextlib.asynccontextmanager
async def control_plane() -> AsyncIterator[StockApiServer]:
    """All of stock Kubernetes but its kubelets."""

    def started(stack: contextlib.ExitStack) -> StockApiServer:
        server = stack.enter_context(StockApiServer(disable_admission_plugins="TaintNodesByCondition"))
        key = str(server.certificate.with_suffix(".key"))
        stack.enter_context(
            ControllerManager(
                server.kubeconfig("system:kube-controller-manager"),
                use_service_account_credentials="true",
                service_account_private_key_file=key,
                root_ca_file=str(server.certificate),
                controllers="*,-node-lifecycle-controller",
            )
        )
        stack.enter_context(Scheduler(server.kubeconfig("system:kube-scheduler")))
        return server

    with contextlib.ExitStack() as stack:
        try:
            yield await asyncio.to_thread(started, stack)
        finally:
            await asyncio.to_thread(stack.close)


class Reader:
    """Types what the page says into a shell, block by block."""

    def __init__(self, server: StockApiServer, folder: Path) -> None:
        helm = binaries.helm()
        assert helm is not None
        tools = [helm.parent, program("kubectl").parent, Path(sys.executable).parent]
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join([*map(str, tools), os.environ["PATH"]]),
            "KUBECONFIG": str(server.kubeconfig()),
            "HOME": str(folder),
            "NO_COLOR": "1",
        }
        self._blocks = [one.text for one in following.blocks(PAGE) if one.language == "sh"]

    @property
    def done(self) -> bool:
        """Whether nothing is left to type."""
        return not self._blocks

    async def up_to(self, words: str) -> str:
        """Run the blocks up to the one that has these words; what they print."""
        printed = ""
        while True:
            block = self._blocks.pop(0)
            process = await asyncio.create_subprocess_exec(
                *("bash", "-eu", "-c", block),
                cwd=REPOSITORY,
                env=self._environment,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await asyncio.wait_for(process.communicate(), 120)
            assert process.returncode == 0, f"{block}\n{said.decode()}"
            printed += said.decode()
            if words in block:
                return printed


async def test_the_page_can_be_followed(tmp_path: Path) -> None:
    assert shutil.which("bash")
    nodes = [manifests.node("stays-1", **{CAPACITY: "on-demand"}), manifests.node("stays-2")]
    nodes += [manifests.node("spot-1", **{CAPACITY: "spot"})]
    async with control_plane() as server, cluster(server.kubeconfig(), nodes) as it:
        reader, installation = Reader(server, tmp_path), Installation(server, tmp_path)
        said = await reader.up_to("helm install")
        assert 'deployment "rota-spot-controller" successfully rolled out' in said
        pods = (await it.client.list(PODS, namespace="rota-system")).items
        # kube-scheduler keeps the parts off spot machines, and two of a kind apart
        assert sorted(one["spec"]["nodeName"] for one in pods) == ["stays-1", "stays-1", "stays-2", "stays-2"]
        async with installation.running("scheduler"), installation.running("spot-controller"):
            said = await reader.up_to("reason=Scheduled")
            assert "Successfully assigned default/tried to" in said
            said = await reader.up_to("--withdraw")
            assert "SpotNotice" in said
            assert "node/spot-1 stays after all" in said
            said = await reader.up_to("extender.enabled=true")
            assert "urlPrefix: https://rota-extender.rota-system.svc" in said
            said = await reader.up_to("get leases")
            assert "rota-spot-controller" in said
            said = await reader.up_to("helm rollback")
            assert "Rollback was a success" in said
        said = await reader.up_to("helm uninstall")
        assert 'release "rota" uninstalled' in said
        assert reader.done
