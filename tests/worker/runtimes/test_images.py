"""Images as files: unpacked layer above layer, whatever is in them."""

import json
import os
import stat
from pathlib import Path

import pytest
from tests.worker.runtimes.images import Layer, layer_of, write_docker_archive, write_layout

from rota.worker.runtimes.container import archives, image_gc, programs, users
from rota.worker.runtimes.container.archives import ImageError
from rota.worker.runtimes.runtime_interface import LaunchError, Mount

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can unpack images")


@needs_root
@pytest.mark.slow
def test_layers_lie_above_each_other(tmp_path: Path) -> None:
    layers: list[Layer] = [
        {"etc/": None, "etc/a": b"old", "etc/b": b"b", "gone": b"x", "folder/": None, "folder/x": b"x"},
        {"link": b"-> etc"},
        {"etc/a": b"new", ".wh.gone": b"", "folder/y": b"y", "folder/.wh..wh..opq": b"", "link/c": b"c"},
    ]
    layout = write_layout(tmp_path / "image", layers, {"Cmd": ["x"]})
    root, settings = archives.unpacked(layout, "", tmp_path / "unpacked")
    assert settings == {"Cmd": ["x"]}
    found = {str(one.relative_to(root)) for one in root.rglob("*")}
    assert found == {"etc", "etc/a", "etc/b", "etc/c", "folder", "folder/y", "link"}
    assert (root / "etc" / "a").read_text() == "new"
    again, _ = archives.unpacked(layout, "", tmp_path / "unpacked")
    assert again == root
    assert [one.name for one in (tmp_path / "unpacked").iterdir()] == [root.name], "no drafts are left"


@needs_root
@pytest.mark.slow
def test_links_and_names_lead_nowhere_but_into_the_image(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    layers = [
        {"way": f"-> {outside}".encode(), "up": b"-> ../../../../../../../../.." + str(outside).encode()},
        {"way/x": b"1", "up/y": b"2", "../../../../../../../../../../z": b"3"},
    ]
    root, _ = archives.unpacked(write_layout(tmp_path / "image", layers, {}), "", tmp_path / "unpacked")
    assert list(outside.iterdir()) == []
    inside = root / str(outside).lstrip("/")
    assert sorted(one.name for one in inside.iterdir()) == ["x", "y"]
    assert (root / "z").read_text() == "3"


@needs_root
@pytest.mark.slow
def test_an_archive_of_docker_is_an_image_too(tmp_path: Path) -> None:
    path = write_docker_archive(tmp_path / "a.tar", [{"bin/tool": b"#!"}], {"User": "5"}, name="team/app:1")
    root, settings = archives.unpacked(path, "team/app:1", tmp_path / "unpacked")
    assert settings == {"User": "5"}
    assert stat.S_IMODE((root / "bin" / "tool").stat().st_mode) == 0o755
    with pytest.raises(ImageError, match="there is no other:2 in it"):
        archives.unpacked(path, "other:2", tmp_path / "unpacked")


@needs_root
@pytest.mark.slow
def test_a_layer_that_is_broken_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    layout = write_layout(tmp_path / "image", [{"a": b"1"}], {})
    for blob in (layout / "blobs" / "sha256").iterdir():
        if blob.read_bytes().startswith(b"\x1f\x8b"):
            blob.write_bytes(blob.read_bytes()[:40])
    with pytest.raises(ImageError, match="cannot be unpacked"):
        archives.unpacked(layout, "", tmp_path / "unpacked")
    assert list((tmp_path / "unpacked").iterdir()) == []


def test_tags_choose_among_the_images_of_a_layout(tmp_path: Path) -> None:
    layout = write_layout(tmp_path / "image", [{"a": b"1"}], {"Cmd": ["x"]}, tag="1.0")
    assert archives.contents_of(archives.Archive(layout), "1.0").settings == {"Cmd": ["x"]}
    with pytest.raises(ImageError, match=r"there is no 2\.0 for"):
        archives.contents_of(archives.Archive(layout), "2.0")


@pytest.mark.parametrize(
    "content", [b"", b"no archive", layer_of({"a": b"1"})], ids=["empty", "no archive", "another archive"]
)
def test_what_is_no_image_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ImageError):
        archives.unpacked(tmp_path / "file", "", tmp_path / "unpacked")


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("what", ["manifest", "config", "layer"])
def test_what_is_not_what_its_hash_says_is_refused(tmp_path: Path, what: str) -> None:
    layout = write_layout(tmp_path / "image", [{"file": b"good"}], {"Cmd": ["good"]})
    index = json.loads((layout / "index.json").read_text())
    blobs = {"manifest": index["manifests"][0]["digest"]}
    manifest = json.loads((layout / "blobs" / blobs["manifest"].replace(":", "/")).read_text())
    blobs |= {"config": manifest["config"]["digest"], "layer": manifest["layers"][0]["digest"]}
    other = write_layout(tmp_path / "other", [{"file": b"evil"}], {"Cmd": ["evil"]})
    theirs = json.loads((other / "index.json").read_text())["manifests"][0]["digest"]
    described = json.loads((other / "blobs" / theirs.replace(":", "/")).read_text())
    replaced = {
        "manifest": theirs,
        "config": described["config"]["digest"],
        "layer": described["layers"][0]["digest"],
    }
    content = (other / "blobs" / replaced[what].replace(":", "/")).read_bytes()
    (layout / "blobs" / blobs[what].replace(":", "/")).write_bytes(content)
    with pytest.raises(ImageError, match="not what its hash says"):
        archives.unpacked(layout, "", tmp_path / "unpacked")
    assert not list((tmp_path / "unpacked").glob("[!.]*"))


@needs_root
@pytest.mark.slow
def test_two_images_under_one_name_are_two_images(tmp_path: Path) -> None:
    """The name of the configuration says nothing: here both are called abc.json."""
    roots = []
    for content in (b"one", b"two"):
        path = write_docker_archive(tmp_path / f"{content.decode()}.tar", [{"file": content}], {}, name="app:1")
        root, _ = archives.unpacked(path, "app:1", tmp_path / "unpacked")
        roots.append((root / "file").read_bytes())
    assert roots == [b"one", b"two"]


def test_a_digest_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    layout = write_layout(tmp_path / "image", [], {})
    index = (layout / "index.json").read_text()
    (layout / "index.json").write_text(index.replace("sha256:", "sha256:../../"))
    with pytest.raises(ImageError, match="is no digest"):
        archives.contents_of(archives.Archive(layout), "")


def test_paths_are_looked_up_as_the_container_would(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "bin").symlink_to("/usr/bin")
    (root / "usr" / "bin" / "tool").write_text("x")
    (root / "round").symlink_to("round")
    (root / "up").symlink_to("../../../usr")
    assert users.resolve(root, "/bin/tool") == root / "usr" / "bin" / "tool"
    assert users.resolve(root, "up/bin/../bin/tool") == root / "usr" / "bin" / "tool"
    assert users.resolve(root, "/round") is None
    assert users.resolve(root, "/etc/passwd") is None


def test_a_program_may_come_from_a_volume(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "data").write_text("x")
    look = {"path": "/bin:/opt", "cwd": "/"}
    programs.check(tmp_path, "/tools/x", mounts=[Mount(source="/x", target="/tools/")], **look)
    programs.check(tmp_path, "x", mounts=[Mount(source="/x", target="/opt")], **look)
    with pytest.raises(LaunchError, match="no such file"):
        programs.check(tmp_path, "x", mounts=[], **look)
    with pytest.raises(LaunchError, match="permission denied"):
        programs.check(tmp_path, "data", mounts=[], **look)


def test_users_come_from_the_pod_or_the_image(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\nnonsense\nweb:x:10:20::/:/bin/sh\n")
    (tmp_path / "etc" / "group").write_text("ops:x:30:web,other\nweb:x:20:web\n")
    assert users.find(tmp_path, "", user=None, group=None) == (0, 0, [])
    assert users.find(tmp_path, "web", user=None, group=None) == (10, 20, [30])
    assert users.find(tmp_path, "web:ops", user=None, group=None) == (10, 30, [])
    assert users.find(tmp_path, "77:88", user=None, group=None) == (77, 88, [])
    assert users.find(tmp_path, "web", user=10, group=5) == (10, 5, [30, 20])
    assert users.find(tmp_path, "web", user=99, group=None) == (99, 0, [])
    with pytest.raises(LaunchError, match='the image has no user "nobody"'):
        users.find(tmp_path, "nobody", user=None, group=None)
    with pytest.raises(LaunchError, match='the image has no group "x"'):
        users.find(tmp_path, "web:x", user=None, group=None)


def test_images_are_removed_after_a_week_without_use(tmp_path: Path) -> None:
    roots = {name: tmp_path / name for name in ("runs", "fresh", "stale", "unmarked")}
    for root in roots.values():
        (root / "etc").mkdir(parents=True)
    begin = 1_000_000.0
    for name in ("runs", "stale"):
        image_gc.use(roots[name], begin)
    image_gc.use(roots["fresh"], begin + image_gc.KEPT_S)
    later = begin + image_gc.KEPT_S + 1
    assert image_gc.collect(tmp_path, used=[roots["runs"], tmp_path.parent / "elsewhere"], now=later) == ["stale"]
    assert {one.name for one in tmp_path.iterdir()} == {
        *("runs", "fresh", "unmarked"), *("runs.used", "fresh.used", "unmarked.used")
    }  # fmt: skip
    assert image_gc.collect(tmp_path, used=[], now=later + image_gc.KEPT_S + 1) == ["fresh", "runs", "unmarked"]
    assert not list(tmp_path.iterdir())


def test_a_machine_without_unpacked_images_has_none_to_lose(tmp_path: Path) -> None:
    assert image_gc.collect(tmp_path / "nowhere", used=[], now=0.0) == []
