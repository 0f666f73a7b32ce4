"""The files of the dashboard: small, complete, from nowhere else, and what their packages published."""

import importlib.resources
import json
import re

from rota.web import pages

#: Of the first load, compressed; what later pages need is in it, too, except for the terminal.
MOST_BYTES = 150 * 1024
TERMINAL = ("vendor/xterm.js", "vendor/xterm-fit.js", "vendor/xterm.css")


def test_the_first_load_is_small() -> None:
    files = {path: one for path, one in pages.files().items() if path.endswith((".js", ".css", ".html", ".svg"))}
    loaded = [one for path, one in files.items() if path not in TERMINAL]
    assert len(loaded) == len(files) - len(TERMINAL)
    assert 20_000 < sum(len(one.compressed) for one in loaded) < MOST_BYTES


def test_the_terminal_is_loaded_when_it_is_opened() -> None:
    """Nothing that the page loads at first imports it."""
    eager = re.compile(rb"""(?:^|[;\n])\s*(?:import|export)\b[^;()]*["']@xterm/""")
    assert eager.search(b'import { Terminal } from "@xterm/xterm";') is not None
    for path, one in pages.files().items():
        if path.endswith(".js") and not path.startswith("vendor/"):
            assert eager.search(one.body) is None, path
    assert b"xterm.css" not in pages.files()["index.html"].body


def test_vendored_modules_are_what_their_packages_published() -> None:
    folder = importlib.resources.files("rota.web") / "static" / "vendor"
    listed = json.loads((folder / "packages.json").read_text())
    present = {one.name for one in folder.iterdir()}
    assert present == {*listed["files"], *(one["licenceFile"] for one in listed["packages"].values()), "packages.json"}
    for name, one in listed["files"].items():
        assert pages.integrity((folder / name).read_bytes()) == one["integrity"], name
        assert one["package"] in listed["packages"]
    for one in listed["packages"].values():
        assert one["integrity"].startswith("sha512-")
        assert one["licence"] in {"MIT", "Apache-2.0"}


def test_the_import_map_pins_every_module() -> None:
    page = pages.files()["index.html"].body.decode()
    found = re.search(r'<script type="importmap">(.*?)</script>', page)
    assert found is not None
    pinned = json.loads(found[1])
    scripts = {pages.ASSETS + path for path in pages.files() if path.endswith(".js")}
    assert set(pinned["integrity"]) == scripts
    assert set(pinned["imports"].values()) <= scripts


def test_the_policy_allows_this_server_and_nothing_inline_but_the_import_map() -> None:
    policy = dict(pages.headers())[b"content-security-policy"].decode()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    page = pages.files()["index.html"].body.decode()
    inline = re.search(r'<script type="importmap">(.*?)</script>', page)
    assert inline is not None
    assert f"script-src 'self' '{pages.integrity(inline[1].encode())}'" in policy
    assert "style=" not in page
    assert re.search(r"\son\w+=", page) is None


def test_no_page_names_another_server() -> None:
    for path, one in pages.files().items():
        if path.startswith("vendor/"):
            continue
        named = set(re.findall(rb"""["'(](?:https?:)?//[a-z][^"')]*""", one.body)) - {b'"http://www.w3.org/2000/svg'}
        assert named == set(), path


def test_markup_is_never_made_from_texts() -> None:
    for path, one in pages.files().items():
        if path.endswith(".js") and not path.startswith("vendor/"):
            assert not re.search(rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", one.body), path


def test_only_files_of_the_folder_are_served() -> None:
    assert pages.find("/dashboard/assets/app.js") is not None
    for path in ("/dashboard/assets/../__init__.py", "/dashboard/assets/nothing.js", "/dashboard/assets/index.html"):
        assert pages.find(path) is None
    page = pages.find("/dashboard/pods/default/web")
    assert page is pages.files()["index.html"]
