"""The image: what goes in, who runs it, and that the product needs nothing but what is installed.

Whole, it is built by scripts/prove-image, which takes minutes, root and a package index.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml
from tests.packaging import charts

REPOSITORY = Path(__file__).parents[2]
CONTAINERFILE = (charts.PACKAGING / "Containerfile").read_text()


def test_all_that_is_copied_is_there_and_let_in() -> None:
    ignored = (REPOSITORY / ".dockerignore").read_text().splitlines()
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", CONTAINERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert copied == let_in
    assert all((REPOSITORY / source).exists() for source in copied)


def test_its_user_is_the_one_that_pods_run_as() -> None:
    (user,) = re.findall(r"^USER (\d+):\1$", CONTAINERFILE, re.MULTILINE)
    manifest = (charts.PACKAGING / "manifests" / "scheduler.yaml").read_text()
    deployment = next(one for one in yaml.safe_load_all(manifest) if one["kind"] == "Deployment")
    context = deployment["spec"]["template"]["spec"]["securityContext"]
    assert {str(context[name]) for name in ("runAsUser", "runAsGroup", "fsGroup")} == {user}


def test_its_base_is_a_version_and_its_libraries_are_known_by_their_hashes() -> None:
    (base,) = re.findall(r"^ARG BASE=(\S+)$", CONTAINERFILE, re.MULTILINE)
    assert re.search(r":\d+\.\d+-", base)
    assert "--require-hashes --requirement requirements/runtime.lock" in CONTAINERFILE


@pytest.mark.slow
def test_the_product_runs_from_its_wheel_where_nothing_can_be_written(tmp_path: Path) -> None:
    """As in the image: no sources, no development tools' editable install, a read-only root."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source, installed = tmp_path / "source", tmp_path / "installed"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (source / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, source / name)
    shutil.copytree(REPOSITORY / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    alone = ["--no-deps", "--no-build-isolation", "--no-index", "--no-compile"]
    subprocess.run([*pip, "install", *alone, "--target", str(installed), str(source)], check=True, cwd=tmp_path)
    shutil.rmtree(source)
    libraries = sysconfig.get_path("purelib")
    start = f"import sys; sys.path[:0] = [{str(installed)!r}]; sys.path.append({libraries!r}); "
    start += "from rota.cli.main import main; import rota; print(rota.__file__, flush=True); sys.exit(main())"
    for words in (["version"], ["scheduler", "--help"], ["extender", "--help"], ["spot-controller", "--help"]):
        # isolated: no working folder, no user's packages; without site: no editable install
        command = [sys.executable, "-I", "-S", "-B", "-c", start, *words]
        done = subprocess.run(_read_only(command), capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(str(installed))


def _read_only(command: list[str]) -> list[str]:
    """The command where it can write no file, as far as this user may arrange that."""
    unshare, setpriv = shutil.which("unshare"), shutil.which("setpriv")
    if os.geteuid() != 0 or unshare is None or setpriv is None:
        return command
    places = 'for place in / /tmp; do mountpoint -q "$place" && mount -o remount,bind,ro "$place"; done; '
    bare = f"! touch /tmp/written 2>/dev/null && exec {setpriv} --bounding-set=-all --no-new-privs "
    return [unshare, "--mount", "sh", "-c", places + bare + '"$@"', "sh", *command]
