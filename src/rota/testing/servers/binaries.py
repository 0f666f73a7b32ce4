"""Where this machine keeps the programs that tests start or call. Imports no driver, so anyone may ask."""

import functools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

#: Older ones ask for things that are long gone from the API.
OLDEST_KUBECTL: Final = (1, 27)

_SIBLING: Final = re.compile(r"kubectl\.(\d+)\.(\d+)")


def postgres_folder() -> Path | None:
    """The folder with PostgreSQL's server programs: on the PATH, or where Debian and pg_config keep them."""
    candidates: list[Path] = []
    if on_path := shutil.which("postgres"):
        candidates.append(Path(on_path).resolve().parent)
    versions = Path("/usr/lib/postgresql").glob("[1-9]*/bin")
    candidates += sorted(versions, key=lambda folder: float(folder.parent.name), reverse=True)
    if pg_config := shutil.which("pg_config"):
        asked = subprocess.run([pg_config, "--bindir"], check=False, capture_output=True, text=True)
        candidates.append(Path(asked.stdout.strip()))
    for folder in candidates:
        if all(os.access(folder / program, os.X_OK) for program in ("initdb", "postgres")):
            return folder
    return None


def kubernetes(program: str) -> Path | None:
    """A stock Kubernetes program, or the etcd that goes with it: in $KUBEBUILDER_ASSETS, or built by us.

    `scripts/build-kubernetes` builds them and keeps the link `current` in its cache.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for folder in (os.environ.get("KUBEBUILDER_ASSETS"), cache / "rota" / "kubernetes" / "current"):
        if folder and os.access(found := Path(folder, program), os.X_OK):
            return found
    return None


def helm() -> Path | None:
    """Helm 3: built by us (`scripts/build-helm`), or on the PATH."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if os.access(built := cache / "rota" / "helm" / "current" / "helm", os.X_OK):
        return built
    found = shutil.which("helm")
    return None if found is None else Path(found)


def etcd() -> Path | None:
    """The etcd program."""
    return on_path("etcd")


def chromium() -> Path | None:
    """The browser, by Debian's name."""
    return on_path("chromium")


def on_path(program: str) -> Path | None:
    """A program of the system, by Debian's name."""
    found = shutil.which(program)
    return None if found is None else Path(found)


def sshd() -> Path | None:
    """The ssh server, which is in a folder of the administrator's."""
    found = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    return None if found is None else Path(found)


@functools.cache
def kubectls() -> tuple[Path, ...]:
    """Every usable kubectl, the oldest first: the one on the PATH, or those named `kubectl.<version>` beside it.

    Where there are such, the one on the PATH only chooses among them by the server's version. The one that belongs to
    the stock programs counts too.
    """
    versions: dict[tuple[int, int], Path] = {}
    if built := kubernetes("kubectl"):
        versions[_kubectl_version(str(built))] = built
    if found := shutil.which("kubectl"):
        siblings = {}
        for path in Path(found).resolve().parent.glob("kubectl.*"):
            if (named := _SIBLING.fullmatch(path.name)) and os.access(path, os.X_OK):
                siblings[int(named[1]), int(named[2])] = path
        versions |= siblings or {_kubectl_version(found): Path(found)}
    return tuple(path for version, path in sorted(versions.items()) if version >= OLDEST_KUBECTL)


def _kubectl_version(program: str) -> tuple[int, int]:
    asked = subprocess.run(
        [program, "version", "--client", "--output=json"], check=False, capture_output=True, text=True
    )
    try:
        version = json.loads(asked.stdout)["clientVersion"]
        return int(version["major"]), int(re.match(r"\d+", version["minor"])[0])  # type: ignore[index]
    except (ValueError, KeyError, TypeError):
        return (0, 0)
