"""Volumes: files from objects of the API, folders of their own, folders of the machine."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rota.worker import projections, volumes
from rota.worker.host_resources import HostResources
from rota.worker.projections import File
from rota.worker.references import ConfigMap, TokenWanted
from rota.worker.runtimes.runtime_interface import LaunchError
from rota.worker.volumes import VolumeError

MACHINE = HostResources(node="n", address="192.0.2.1", capacity={}, allocatable={})


class Objects:
    """What pods refer to, in memory."""

    def __init__(self) -> None:
        self.maps: dict[str, ConfigMap] = {}
        self.secrets: dict[str, Mapping[str, bytes]] = {}
        self.asked: list[TokenWanted] = []

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        return self.maps.get(name)

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return self.secrets.get(name)

    async def token(self, wanted: TokenWanted) -> str:
        self.asked.append(wanted)
        return f"token-{len(self.asked)}"


def _pod(*volumes: dict[str, Any], mounts: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "default", "uid": "u", "labels": {"app": "web"}}
    containers = [{"name": "c", "volumeMounts": list(mounts)}]
    return {"metadata": metadata, "spec": {"volumes": list(volumes), "containers": containers, **spec}}


async def _prepare(pod: dict[str, Any], folder: Path, objects: Objects | None = None) -> None:
    await volumes.prepare(pod, folder, references=objects or Objects(), settings=MACHINE)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_files_come_from_maps_and_secrets_with_their_modes(tmp_path: Path) -> None:
    objects = Objects()
    objects.maps["m"] = ConfigMap({"a": "1", "b": "2"}, {"raw": b"\xff\x00"})
    objects.secrets["s"] = {"key": b"hidden"}
    items = [{"key": "a", "path": "deep/a"}, {"key": "raw", "path": "raw", "mode": 0o600}]
    pod = _pod(
        {"name": "m", "configMap": {"name": "m", "items": items}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
    )
    await _prepare(pod, tmp_path / "v", objects)
    assert (tmp_path / "v" / "m" / "deep" / "a").read_text() == "1"
    assert (tmp_path / "v" / "m" / "raw").read_bytes() == b"\xff\x00"
    assert not (tmp_path / "v" / "m" / "b").exists()
    assert _mode(tmp_path / "v" / "m" / "deep" / "a") == 0o644
    assert _mode(tmp_path / "v" / "m" / "raw") == 0o600
    assert _mode(tmp_path / "v" / "s" / "key") == 0o400


async def test_what_is_missing_is_an_error_unless_it_is_optional(tmp_path: Path) -> None:
    with pytest.raises(VolumeError, match=r'MountVolume\.SetUp failed for volume "m" : configmap "m" not found'):
        await _prepare(_pod({"name": "m", "configMap": {"name": "m"}}), tmp_path / "a")
    await _prepare(_pod({"name": "m", "configMap": {"name": "m", "optional": True}}), tmp_path / "b")
    assert (tmp_path / "b" / "m").is_dir()
    objects = Objects()
    objects.secrets["s"] = {"a": b"1"}
    wanted = {"secretName": "s", "items": [{"key": "x", "path": "x"}]}
    with pytest.raises(VolumeError, match="references non-existent secret key: x"):
        await _prepare(_pod({"name": "s", "secret": wanted}), tmp_path / "c", objects)
    await _prepare(_pod({"name": "s", "secret": {**wanted, "optional": True}}), tmp_path / "d", objects)


async def test_a_projected_volume_holds_what_its_sources_have(tmp_path: Path) -> None:
    objects = Objects()
    objects.maps["ca"] = ConfigMap({"ca.crt": "authority"}, {})
    sources = [
        {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 1200}},
        {"configMap": {"name": "ca"}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    pod = _pod({"name": "api", "projected": {"sources": sources}}, serviceAccountName="builder")
    await _prepare(pod, tmp_path, objects)
    found = {name: (tmp_path / "api" / name).read_text() for name in ("token", "ca.crt", "namespace")}
    assert found == {"token": "token-1", "ca.crt": "authority", "namespace": "default"}
    (asked,) = objects.asked
    assert (asked.account, asked.audience, asked.lifetime_s, asked.uid) == ("builder", "vault", 1200, "u")


async def test_what_changes_is_seen_by_a_pod_that_runs(tmp_path: Path) -> None:
    objects = Objects()
    objects.maps["m"] = ConfigMap({"a": "1", "gone": "x"}, {})
    pod = _pod({"name": "m", "configMap": {"name": "m"}}, {"name": "e", "emptyDir": {}})
    await _prepare(pod, tmp_path, objects)
    folder, inode = tmp_path / "m", (tmp_path / "m").stat().st_ino
    held = (folder / "a").open()
    assert await volumes.refresh(pod, tmp_path, references=objects, settings=MACHINE) == []
    objects.maps["m"] = ConfigMap({"a": "2", "new": "y"}, {})
    assert await volumes.refresh(pod, tmp_path, references=objects, settings=MACHINE) == ["m"]
    assert folder.stat().st_ino == inode, "what is mounted stays"
    assert {one.name for one in folder.iterdir() if not one.name.startswith("..")} == {"a", "new"}
    assert (folder / "a").read_text() == "2"
    assert held.read() == "1", "whoever was reading goes on with what there was"
    held.close()
    assert len([one for one in folder.iterdir() if one.is_dir() and not one.is_symlink()]) == 1
    del objects.maps["m"]
    with pytest.raises(VolumeError, match="not found"):
        await volumes.refresh(pod, tmp_path, references=objects, settings=MACHINE)
    assert (folder / "a").read_text() == "2", "what is gone stays as it was"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to groups")
async def test_a_group_is_given_the_volumes(tmp_path: Path) -> None:
    objects = Objects()
    objects.secrets["s"] = {"key": b"x"}
    pod = _pod(
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "e", "emptyDir": {}},
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        securityContext={"fsGroup": 4321},
    )
    await _prepare(pod, tmp_path, objects)
    assert (tmp_path / "s" / "key").stat().st_gid == 4321
    assert _mode(tmp_path / "s" / "key") == 0o440
    assert _mode(tmp_path / "t" / "token") == 0o640
    assert (tmp_path / "e").stat().st_gid == 4321
    assert _mode(tmp_path / "e") & 0o2070 == 0o2070


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
async def test_a_folder_may_be_kept_in_memory_and_have_a_size(tmp_path: Path) -> None:
    pod = _pod({"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})
    folder = tmp_path / "v"
    try:
        await _prepare(pod, folder)
        await _prepare(pod, folder)
        assert _mode(folder / "m") == 0o777
        with pytest.raises(OSError, match="No space left"):
            (folder / "m" / "big").write_bytes(b"x" * 2 * 1024 * 1024)
    finally:
        volumes.remove(folder)
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    assert not folder.exists()


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "..data", ""])
def test_no_file_leaves_its_volume(tmp_path: Path, name: str) -> None:
    with pytest.raises(LaunchError, match="leaves its volume"):
        projections.write(tmp_path / "v", {name: File(b"x")}, group=None)
    assert not (tmp_path / "v").exists()


async def test_a_part_of_a_volume_may_be_mounted_and_is_made(tmp_path: Path) -> None:
    mounts = (
        {"name": "e", "mountPath": "/a", "subPath": "one/two"},
        {"name": "e", "mountPath": "/b", "subPathExpr": "$(NAME)/x", "readOnly": True},
        {"name": "m", "mountPath": "/c/file", "subPath": "file"},
    )
    objects = Objects()
    objects.maps["m"] = ConfigMap({"file": "x"}, {})
    pod = _pod({"name": "e", "emptyDir": {}}, {"name": "m", "configMap": {"name": "m"}}, mounts=mounts)
    await _prepare(pod, tmp_path, objects)
    first, second, third = volumes.mounts(pod, "c", tmp_path, {"NAME": "web"})
    assert Path(first.source, first.inside) == tmp_path / "e" / "one" / "two"
    assert Path(first.source, first.inside).is_dir()
    assert (Path(second.source, second.inside), second.read_only) == (tmp_path / "e" / "web" / "x", True)
    assert Path(third.source, third.inside).read_text() == "x"
    assert third.read_only, "what follows the API is not for containers to write"


@pytest.mark.parametrize("path", ["../../etc", "/etc", "link/passwd", "link"])
async def test_a_part_of_a_volume_is_not_elsewhere(tmp_path: Path, path: str) -> None:
    pod = _pod({"name": "e", "emptyDir": {}}, mounts=({"name": "e", "mountPath": "/a", "subPath": path},))
    await _prepare(pod, tmp_path)
    (tmp_path / "e" / "link").symlink_to("/etc")
    with pytest.raises(LaunchError, match="leaves its volume"):
        volumes.mounts(pod, "c", tmp_path, {})


@pytest.mark.parametrize(
    ("kind", "is_good"),
    [("", True), ("Directory", False), ("File", False), ("DirectoryOrCreate", True), ("Socket", False)],
)
async def test_folders_of_the_machine_are_what_the_pod_says(tmp_path: Path, kind: str, is_good: bool) -> None:
    pod = _pod({"name": "h", "hostPath": {"path": str(tmp_path / "there"), "type": kind}})
    if is_good:
        await _prepare(pod, tmp_path / "v")
        assert (tmp_path / "there").is_dir()
    else:
        with pytest.raises(VolumeError, match="hostPath type check failed"):
            await _prepare(pod, tmp_path / "v")


async def test_kinds_that_cannot_be_made_are_named(tmp_path: Path) -> None:
    with pytest.raises(VolumeError, match="volumes of kind nfs cannot be made here"):
        await _prepare(_pod({"name": "n", "nfs": {"server": "s", "path": "/"}}), tmp_path)
    sources = [{"clusterTrustBundle": {"path": "x"}}]
    with pytest.raises(VolumeError, match="files from clusterTrustBundle cannot be made here"):
        await _prepare(_pod({"name": "p", "projected": {"sources": sources}}), tmp_path)
