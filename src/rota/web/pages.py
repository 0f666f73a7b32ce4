"""The files of the dashboard, as answers with their headers.

All files are read once and kept compressed. The policy of the page allows the scripts and styles of this server and
nothing else: no inline code except the import map, whose hash is in the policy, no frames, no other servers.
"""

import base64
import functools
import gzip
import hashlib
import importlib.resources
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Final

PREFIX: Final = "/dashboard/"
ASSETS: Final = f"{PREFIX}assets/"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: The names by which modules import the vendored ones.
_MODULES: Final = {
    "preact": "vendor/preact.js",
    "preact/hooks": "vendor/preact-hooks.js",
    "htm": "vendor/htm.js",
    "@preact/signals": "vendor/signals.js",
    "@preact/signals-core": "vendor/signals-core.js",
    "uplot": "vendor/uplot.js",
    "@xterm/xterm": "vendor/xterm.js",
    "@xterm/addon-fit": "vendor/xterm-fit.js",
}
_MAP: Final = re.compile(r"<!-- import map -->")
_COMMON: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)


@dataclass(frozen=True, slots=True)
class File:
    """A file to serve."""

    content_type: str
    body: bytes
    compressed: bytes
    etag: bytes


def integrity(content: bytes) -> str:
    """A hash in the form of subresource integrity."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"


@functools.cache
def files() -> Mapping[str, File]:
    """All files by their path below the assets; the page itself is `index.html`."""
    found = dict(_read(importlib.resources.files("rota.web") / "static", ""))
    page = found["index.html"].decode()
    found["index.html"] = _MAP.sub(
        lambda _: f'<script type="importmap">{import_map(found)}</script>', page, count=1
    ).encode()
    return {path: _file(path, content) for path, content in found.items()}


def import_map(found: Mapping[str, bytes]) -> str:
    """The import map with the integrity of every module."""
    return json.dumps(
        {
            "imports": {name: ASSETS + path for name, path in _MODULES.items()},
            "integrity": {
                ASSETS + path: integrity(content) for path, content in sorted(found.items()) if path.endswith(".js")
            },
        },
        separators=(",", ":"),
    )


@functools.cache
def headers() -> tuple[tuple[bytes, bytes], ...]:
    """The headers of every answer of the dashboard."""
    page = files()["index.html"].body.decode()
    inline = page.partition('<script type="importmap">')[2].partition("</script>")[0]
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' '{integrity(inline.encode())}'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    return ((b"content-security-policy", policy.encode()), *_COMMON)


def find(path: str) -> File | None:
    """The file at a path of the dashboard; every path that is no asset is the page, which reads it."""
    if path.startswith(ASSETS):
        name = path.removeprefix(ASSETS)
        return None if name == "index.html" else files().get(name)
    return files()["index.html"]


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _read(one, f"{prefix}{one.name}/")
        else:
            yield f"{prefix}{one.name}", one.read_bytes()


def _file(path: str, content: bytes) -> File:
    kind = _TYPES.get(path[path.rfind(".") :] if "." in path else "", "text/plain; charset=utf-8")
    etag = b'"' + hashlib.sha256(content).hexdigest()[:24].encode() + b'"'
    return File(kind, content, gzip.compress(content, 9, mtime=0), etag)
