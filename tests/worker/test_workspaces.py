"""Folders that runs of pipelines share: who may enter them, and when they go."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.api.pipelines import object_names
from rota.client.verbs import Object
from rota.testing import virtual_api
from rota.testing.virtual_api import VirtualCluster
from rota.worker import workspaces
from rota.worker.volumes import VolumeError
from rota.worker.workspaces import RUNS, Workspaces

LONG_S = 61.0


class Node:
    """A node with a run whose folder is on it."""

    def __init__(self, cluster: VirtualCluster, run: Object, folder: Path) -> None:
        self.cluster = cluster
        self.run = run
        self.uid = str(run["metadata"]["uid"])
        self.shared = Path(object_names.workspace(self.uid))
        self.pods: list[Object] = []
        self._folder = folder
        self.workspaces = self.worker()

    def worker(self) -> Workspaces:
        """The worker, or the next one."""
        client = self.cluster.acting_as("system:node:one", "system:nodes")
        return Workspaces(client, self._folder, pods=lambda: self.pods, clock=self.cluster.clock)

    def pod(self, **annotations: str) -> Object:
        volume = {"name": "rota-workspace", "hostPath": {"path": str(self.shared), "type": "DirectoryOrCreate"}}
        metadata = {"name": "r-a-0", "namespace": "default", "annotations": annotations}
        return {"metadata": metadata, "spec": {"volumes": [volume]}}

    def begin(self) -> None:
        """A step comes to this node."""
        pod = self.pod(**{object_names.WORKSPACE_ANNOTATION: "r"})
        self.workspaces.prepare(pod)
        self.pods.append(pod)

    async def is_on(self, node: str) -> None:
        whole = {**self.run, "status": {"phase": "Running", "workspaceNode": node}}
        self.run = await self.cluster.client.update(RUNS, whole, subresource="status")

    async def delete_run(self) -> None:
        await self.cluster.client.delete(RUNS, "r", namespace="default")

    async def a_while_later(self) -> None:
        await self.workspaces.collect()
        await self.cluster.clock.advance(LONG_S)
        await self.workspaces.collect()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with virtual_api.cluster() as cluster:
        spec = {"pipelineSpec": {"steps": [{"name": "a", "template": {"spec": {"containers": []}}}], "workspace": {}}}
        run = await cluster.client.create(RUNS, {"metadata": {"name": "r"}, "spec": spec}, namespace="default")
        made = Node(cluster, run, tmp_path / "workspaces")
        yield made
        outer = made.shared.parent
        if outer.is_symlink():
            outer.unlink()
        shutil.rmtree(outer, ignore_errors=True)


async def test_only_the_worker_can_enter_and_every_step_can_write(node: Node) -> None:
    node.begin()
    assert node.shared.parent.stat().st_mode & 0o777 == 0o700
    assert node.shared.stat().st_mode & 0o777 == 0o777
    (node.shared / "x").touch()
    node.begin()  # the next step finds what the first one left
    assert (node.shared / "x").exists()


async def test_a_folder_of_the_machine_that_is_no_runs_is_left_alone(node: Node) -> None:
    node.workspaces.prepare(node.pod())
    assert not node.shared.parent.exists()


@pytest.mark.parametrize("what", ["open", "link"])
async def test_a_folder_of_another_user_is_not_used(node: Node, tmp_path: Path, what: str) -> None:
    outer = node.shared.parent
    if what == "open":
        outer.mkdir(mode=0o755)
    else:
        outer.symlink_to(tmp_path)
    with pytest.raises(VolumeError, match="not the worker's alone"):
        node.begin()


async def test_a_folder_goes_when_its_run_is_gone(node: Node) -> None:
    node.begin()
    await node.is_on("one")
    node.pods.clear()
    await node.delete_run()
    await node.workspaces.collect()
    assert node.shared.exists()  # not at once
    await node.a_while_later()
    assert not node.shared.parent.exists()
    await node.a_while_later()


async def test_a_folder_stays_while_its_run_does_though_no_pod_has_it(node: Node) -> None:
    node.begin()
    await node.is_on("one")
    node.pods.clear()
    await node.a_while_later()
    assert node.shared.exists()


async def test_a_folder_stays_while_a_step_still_runs_though_its_run_is_gone(node: Node) -> None:
    node.begin()
    await node.delete_run()
    await node.a_while_later()
    assert node.shared.exists()
    node.pods.clear()
    await node.a_while_later()
    assert not node.shared.parent.exists()


async def test_a_folder_that_its_run_has_left_behind_for_another_node_goes(node: Node) -> None:
    node.begin()
    await node.is_on("two")
    node.pods.clear()
    await node.a_while_later()
    assert not node.shared.parent.exists()


async def test_a_run_of_the_same_name_is_another_run(node: Node) -> None:
    node.begin()
    node.pods.clear()
    await node.delete_run()
    metadata: dict[str, Any] = {"name": "r", "namespace": "default"}
    again = await node.cluster.client.create(RUNS, {"metadata": metadata, "spec": node.run["spec"]})
    whole = {**again, "status": {"phase": "Running", "workspaceNode": "one"}}
    await node.cluster.client.update(RUNS, whole, subresource="status")
    await node.a_while_later()
    assert not node.shared.parent.exists()


async def test_the_next_worker_knows_what_the_one_before_made(node: Node) -> None:
    node.begin()
    node.pods.clear()
    await node.delete_run()
    node.workspaces = node.worker()
    await node.a_while_later()
    assert not node.shared.parent.exists()


async def test_a_record_that_could_not_be_written_is_written_the_next_time(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> int:
        path.touch()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="No space"):
            node.begin()
    assert not node.shared.exists()
    node.begin()
    await node.is_on("one")
    await node.delete_run()
    node.pods.clear()
    await node.a_while_later()
    assert not node.shared.parent.exists()


async def test_as_long_as_the_api_cannot_be_asked_nothing_goes(node: Node) -> None:
    node.begin()
    node.pods.clear()
    await node.delete_run()
    nowhere = node.cluster.acting_as("system:node:one", "system:nodes").with_settings(timeout_s=-1.0, retry=False)
    node.workspaces = Workspaces(nowhere, node._folder, pods=lambda: node.pods, clock=node.cluster.clock)
    await node.a_while_later()
    assert node.shared.exists()


async def test_links_are_removed_and_not_followed(node: Node, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    node.begin()
    (node.shared / "link").symlink_to(kept)
    (node.shared / "folder").mkdir()
    (node.shared / "folder" / "up").symlink_to(kept / "file")
    workspaces.remove(node.shared.parent)
    assert not node.shared.parent.exists()
    assert (kept / "file").exists()


async def test_a_link_in_the_place_of_a_folder_is_not_followed(node: Node, tmp_path: Path) -> None:
    node.begin()
    node.pods.clear()
    await node.delete_run()
    shutil.rmtree(node.shared.parent)
    node.shared.parent.symlink_to(tmp_path)
    (tmp_path / "file").touch()
    await node.a_while_later()
    assert (tmp_path / "file").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
async def test_what_a_step_has_closed_to_itself_goes_too(node: Node) -> None:
    node.begin()
    (node.shared / "closed" / "inside").mkdir(parents=True)
    (node.shared / "closed").chmod(0o000)
    workspaces.remove(node.shared.parent)
    assert not node.shared.parent.exists()
