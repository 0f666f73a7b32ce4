"""Images for tests, as other tools write them."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Layer = Mapping[str, bytes | None]


def layer_of(files: Layer | Path) -> bytes:
    """A layer: a folder, or files by name; None stands for a folder."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        if isinstance(files, Path):
            archive.add(files, arcname=".")
        else:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.mode = 0o755
                if content is None:
                    entry.type = tarfile.DIRTYPE
                    archive.addfile(entry)
                elif content.startswith(b"-> "):
                    entry.type, entry.linkname = tarfile.SYMTYPE, content[3:].decode()
                    archive.addfile(entry)
                else:
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def write_layout(folder: Path, layers: Sequence[Layer | Path], settings: Mapping[str, Any], *, tag: str = "") -> Path:
    """A folder in the OCI image layout."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    config = put(json.dumps({"architecture": "any", "os": "linux", "config": dict(settings)}).encode())
    manifest = {"schemaVersion": 2, "config": config, "layers": [put(layer_of(one)) for one in layers]}
    described = put(json.dumps(manifest).encode())
    if tag:
        described["annotations"] = {"org.opencontainers.image.ref.name": tag}
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [described]}))
    return folder


def write_docker_archive(path: Path, layers: Sequence[Layer], settings: Mapping[str, Any], *, name: str) -> Path:
    """What `docker save` writes."""
    files = {f"{number}/layer.tar": layer_of(one) for number, one in enumerate(layers)}
    hashes = [f"sha256:{hashlib.sha256(_plain(one)).hexdigest()}" for one in files.values()]
    manifest = [{"Config": "abc.json", "RepoTags": [name], "Layers": list(files)}]
    files |= {
        "abc.json": json.dumps({"config": dict(settings), "rootfs": {"type": "layers", "diff_ids": hashes}}).encode(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    with tarfile.open(path, "w") as archive:
        for entry_name, content in files.items():
            entry = tarfile.TarInfo(entry_name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def _plain(layer: bytes) -> bytes:
    return gzip.decompress(layer) if layer.startswith(b"\x1f\x8b") else layer
