"""Where this machine keeps the programs of the databases. Imports no driver, so anyone may ask."""

import os
import shutil
import subprocess
from pathlib import Path


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


def etcd() -> Path | None:
    """The etcd program."""
    found = shutil.which("etcd")
    return None if found is None else Path(found)
