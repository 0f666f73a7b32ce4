"""The program that acts on a machine of a cluster. It needs Python's standard library only.

`reach` sends its text, a request and possibly a file over standard input; nothing has to be installed on the machine
before, and no secret is in a command line. Each operation may be repeated. Those that change something hold a lock of
the member, so that the operation of a runner that was killed ends before the next one begins.

    HOME = <spec.folder>/<member>
    HOME/member.json          cluster, name and role
    HOME/releases/<id>/       an environment with an installed release; `complete` is written last
    HOME/current              link to the release in use
    HOME/service.json         command, unit, digest; HOME/service.env has its variables
    HOME/data/                the data folder of the master or worker
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

_LOCK_S = 600.0
_STOP_S = 75.0
_AGAIN_S = 0.1
_TRIES = 100
_UNITS = Path("/etc/systemd/system")
_SYSTEMD = Path("/run/systemd/system")


class Failed(Exception):
    """What could not be done, for the user."""


def answer(request: dict[str, Any], payload: BinaryIO) -> Any:
    """Carry out one request."""
    home = Path(request["home"])
    operation = request["op"]
    if operation == "observe":
        return observe(home, request)
    if operation == "read":
        return read(home / request["path"])
    if operation == "run":
        return run(request)
    with _locked(home):
        if operation == "remove":
            return remove(home, request["unit"], request["cluster"])
        if operation == "prepare":
            return prepare(home, request)
        if operation == "install":
            return install(home, request["release"], payload)
        if operation == "prune":
            return prune(home, request["releases"])
        if operation == "write":
            return write(home / request["path"], request["text"])
        if operation == "unlink":
            return (home / request["path"]).unlink(missing_ok=True)
        if operation == "start":
            return start(home, request)
    raise Failed(f"there is no operation {operation}")


# --- looking ----------------------------------------------------------------------------------------------------------


def observe(home: Path, request: dict[str, Any]) -> dict[str, Any]:
    """What the member has on this machine; `observed.read_member` reads it."""
    member, service = _json(home / "member.json"), _json(home / "service.json")
    running = bool(service) and _is_running(home, service)
    releases = home / "releases"
    found = sorted(releases.iterdir()) if releases.is_dir() else []
    return {
        "placed": bool(member),
        "cluster": member.get("cluster", ""),
        "releases": [one.name for one in found if (one / "complete").exists()],
        "current": _current(home),
        "running": running,
        "digest": service.get("digest", ""),
        "started_release": service.get("release", ""),
        "former_release": service.get("former", ""),
        "idle_releases": _idle_releases(home, [one.name for one in found]),
        "serving": running and bool(request["server"]) and _is_serving(request["server"]),
        "has_keys": (home / "encryption-keys.yaml").exists(),
        "joined": (home / "data" / "kubeconfig").exists(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "systemd": _SYSTEMD.is_dir(),
    }


def read(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text()
    except OSError as problem:
        raise Failed(f"cannot read {path}: {problem.strerror}") from None


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run a command and return its output; the time limit is that of the request."""
    try:
        done = subprocess.run(
            request["command"], capture_output=True, check=False, text=True, timeout=request["timeout_s"],
            stdin=subprocess.DEVNULL, env={**os.environ, **request.get("environment", {})},
        )  # fmt: skip
    except OSError as problem:
        raise Failed(f"cannot run {request['command'][0]}: {problem.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(request['command'][:3])} takes more than {request['timeout_s']:g} s") from None
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def _idle_releases(home: Path, releases: list[str]) -> list[str]:
    """Releases from which no process runs: a worker's shims go on with the release that started them."""
    if not releases:
        return []
    lines = b"\0".join(_command_lines())
    return [one for one in releases if os.fsencode(home / "releases" / one) + b"/" not in lines]


def _command_lines() -> Iterator[bytes]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                yield (entry / "cmdline").read_bytes()


def _is_serving(server: str) -> bool:
    # A master's answer on its own machine: nothing secret is sent, and the certificate's authority is not known here.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(f"{server}/readyz", timeout=5) as response:
            return bool(response.status == 200)
    except (OSError, ValueError):
        return False


def _is_running(home: Path, service: dict[str, Any]) -> bool:
    if service["text"]:
        state = _systemctl("is-active", service["unit"], check=False).stdout.strip()
        return state in {"active", "activating", "reloading"}
    return bool(_supervisor(home))


def _supervisor(home: Path) -> int:
    """The process ID of the member's supervisor; 0 if it does not run."""
    found = _json(home / "supervisor.json")
    return found["pid"] if found and _started_at(found["pid"]) == found["started_at"] else 0


def _started_at(pid: int) -> str:
    """When a process was started, in ticks: with the process ID it identifies the process; empty if there is none."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if words[0] == "Z" else words[19]


# --- changing ---------------------------------------------------------------------------------------------------------


def prepare(home: Path, request: dict[str, Any]) -> None:
    """Make the member's folder."""
    _check_owner(home, request["cluster"])
    (home / "data").mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid == os.geteuid():
        home.chmod(0o711)  # tasks without rights run the release below it
    write(home / "member.json", json.dumps({"cluster": request["cluster"], "name": home.name, "role": request["role"]}))


def _check_owner(home: Path, cluster: str) -> None:
    other = _json(home / "member.json").get("cluster", cluster)
    if other != cluster:
        raise Failed(f"{home} belongs to the cluster {other}")


def install(home: Path, release: str, payload: BinaryIO) -> None:
    """Install a release from a bundle, without a network; every file must have the hash of the bundle's manifest."""
    folder = home / "releases" / release
    if (folder / "complete").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    bundle = folder / "bundle"
    bundle.mkdir(parents=True)
    _unpack(payload, bundle)
    manifest = (bundle / "manifest.json").read_bytes()
    if not release.endswith(hashlib.sha256(manifest).hexdigest()[:12]):
        raise Failed(f"the manifest of the bundle is not that of {release}: it was changed on its way")
    described = json.loads(manifest)
    for name, digest in described["files"].items():
        if hashlib.sha256((bundle / name).read_bytes()).hexdigest() != digest:
            raise Failed(f"{name} of the bundle does not have its hash: it was changed on its way")
    _command(sys.executable, "-m", "venv", "--without-pip", str(folder))
    _command(
        str(folder / "bin" / "python"), str(bundle / described["pip"] / "pip"), "install", "--quiet", "--no-index",
        "--no-compile", "--disable-pip-version-check", "--require-hashes", "--find-links", str(bundle),
        "--requirement", str(bundle / "requirements.txt"),
    )  # fmt: skip
    shutil.rmtree(bundle)
    write(folder / "complete", release)


def prune(home: Path, releases: list[str]) -> None:
    """Remove releases; the one in use and those of running processes stay."""
    kept = {_current(home), _json(home / "service.json").get("release", "")}
    for one in _idle_releases(home, [name for name in releases if name not in kept and Path(name).name == name]):
        shutil.rmtree(home / "releases" / one, ignore_errors=True)


def _unpack(payload: BinaryIO, folder: Path) -> None:
    """Unpack plain files; anything else in a bundle is refused, since it could write elsewhere."""
    try:
        with tarfile.open(fileobj=payload, mode="r|") as files:
            for entry in files:
                source = files.extractfile(entry) if entry.isfile() else None
                if source is None or Path(entry.name).name != entry.name:
                    raise Failed(f"{entry.name} is no file of a bundle")
                with (folder / entry.name).open("wb") as target:
                    shutil.copyfileobj(source, target)
    except tarfile.TarError as problem:
        raise Failed(f"the bundle is damaged: {problem}") from None


def start(home: Path, request: dict[str, Any]) -> float:
    """Write the service, use its release, and start it; a running one is restarted if that is asked for.

    Returns when it was started by this machine's clock, or 0 if it was left as it is.
    """
    service = {**request["service"], "release": request["release"]}
    if service["text"] and not _is_free(_UNITS / service["unit"], home):
        raise Failed(f"{service['unit']} is of a member of another cluster; give this member another name")
    before = _json(home / "service.json")
    was = before.get("release", "")
    service["former"] = was if was != service["release"] else before.get("former", "")
    runs = bool(before) and _is_running(home, before)
    if runs and not request["restart"] and before.get("digest") == service["digest"]:
        return 0.0
    if runs:
        stop(home, before)
    if request["release"]:
        link = home / "current.new"
        link.unlink(missing_ok=True)
        link.symlink_to(Path("releases") / request["release"])
        link.replace(home / "current")
    lines = [f'{name}="{_escaped(value)}"\n' for name, value in request["environment"].items()]
    write(home / "service.env", "".join(lines))
    write(home / "service.json", json.dumps(service))
    now = time.time()  # noqa: TID251
    if service["text"]:
        unit = _UNITS / service["unit"]
        unit.write_text(service["text"])
        unit.chmod(0o644)
        _systemctl("daemon-reload")
        _systemctl("enable", "--quiet", service["unit"])
        _systemctl("restart", service["unit"])
        return now
    write(home / "supervisor.py", request["supervisor"])
    with open_private(home / "output.log") as output:
        process = subprocess.Popen(
            [sys.executable, str(home / "supervisor.py"), str(home)], stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, start_new_session=True, cwd=home,
        )  # fmt: skip
    write(home / "supervisor.json", json.dumps({"pid": process.pid, "started_at": _started_at(process.pid)}))
    return now


def stop(home: Path, service: dict[str, Any]) -> None:
    """Stop the process; a worker's tasks go on."""
    if service["text"]:
        _systemctl("stop", service["unit"], check=False)
        return
    pid = _supervisor(home)
    if pid:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S  # noqa: TID251 - this program has no clock to be given
        while _supervisor(home):
            if time.monotonic() > deadline:  # noqa: TID251
                raise Failed(f"the supervisor {pid} of {home.name} does not stop")
            time.sleep(_AGAIN_S)  # noqa: TID251


def remove(home: Path, unit: str, cluster: str) -> None:
    """Stop the process, end its tasks, and remove everything that it has on this machine."""
    _check_owner(home, cluster)
    service = _json(home / "service.json")
    if service:
        stop(home, service)
    path = _UNITS / unit
    if path.exists() and _is_free(path, home):
        _systemctl("disable", "--now", "--quiet", unit, check=False)
        path.unlink()
        _systemctl("daemon-reload")
        _systemctl("reset-failed", unit, check=False)
    _end_tasks(home)
    _unmount(home)
    _remove_elsewhere(home)
    shutil.rmtree(home, ignore_errors=False)


def write(path: Path, text: str) -> None:
    """Write a private file as a whole, or leave the one before."""
    new = path.with_name(f".{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _is_free(unit: Path, home: Path) -> bool:
    """Whether a unit is this member's or does not exist: a-b of cluster c has the same one as b of cluster c-a."""
    if not unit.exists():
        return True
    key = "WorkingDirectory="
    lines = unit.read_text().splitlines()
    return any(Path(line.removeprefix(key)) == home for line in lines if line.startswith(key))


def open_private(path: Path) -> BinaryIO:
    """Open a log to append to it; the folder above lets others pass."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


# --- ends -------------------------------------------------------------------------------------------------------------


def _end_tasks(home: Path) -> None:
    """Kill the shims of this member with everything that they started."""
    for _ in range(_TRIES):
        found = _processes(home)
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_AGAIN_S)  # noqa: TID251
    raise Failed(f"processes of {home.name} do not end: {', '.join(map(str, _processes(home)))}")


def _remove_elsewhere(home: Path) -> None:
    """Remove what a worker has outside of its folder, as the process runtime names it: control groups, and homes."""
    mark = zlib.crc32(str(home / "data" / "runtime").encode())
    shutil.rmtree(f"/var/tmp/rota-{os.geteuid()}-{mark:08x}", ignore_errors=True)  # noqa: S108 - made by the worker
    names = _groups(home.name, mark)
    for place, groups, _ in os.walk("/sys/fs/cgroup"):
        for name in names.intersection(groups):
            for group, _, _ in os.walk(Path(place, name), topdown=False):
                _remove_group(Path(group))


def _groups(node: str, mark: int) -> set[str]:
    """The control groups of a worker: that of its containers, and that of batch containers beside it."""
    return {f"rota-{node}-{mark:08x}", f"rota-{node}-{mark:08x}-batch"}


def _remove_group(group: Path) -> None:
    for _ in range(_TRIES):  # the kernel needs a moment after the last process
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            _kill_members(group)
            time.sleep(_AGAIN_S)  # noqa: TID251


def _kill_members(group: Path) -> None:
    """Kill what has left the descendants of its shim, or was started while they were killed."""
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def _processes(home: Path) -> list[int]:
    """Shims whose command line names the member's folder, and all their descendants."""
    children: dict[int, list[int]] = {}
    roots = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            status = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if status[0] == "Z":
            continue
        children.setdefault(int(status[1]), []).append(int(entry.name))
        if any(one.endswith(".shim") for one in words) and any(
            Path(one).is_relative_to(home) for one in words if one.startswith("/")
        ):
            roots.append(int(entry.name))
    found: list[int] = []
    while roots:
        pid = roots.pop()
        found.append(pid)
        roots += children.get(pid, [])
    return found


def _unmount(home: Path) -> None:
    """Volumes of tasks that were killed may still be mounted below the folder: rmtree must not follow them."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in sorted((one for one in mounts if one.startswith(f"{home}/")), key=len, reverse=True):
        _command("umount", "--lazy", mount)


# --- tools ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Hold the member's lock, which is the folder itself: nothing is left of it when the folder is removed."""
    deadline = time.monotonic() + _LOCK_S  # noqa: TID251
    while True:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            same = home.exists() and os.fstat(descriptor).st_ino == home.stat().st_ino
        except BlockingIOError:
            same = False
        if same:
            break
        os.close(descriptor)
        if time.monotonic() > deadline:  # noqa: TID251
            raise Failed(f"another runner has worked on {home} for {_LOCK_S:g} s; look at it, and run again")
        time.sleep(_AGAIN_S)  # noqa: TID251
    try:
        yield
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):  # not empty, or gone
            if not any(home.iterdir()):
                home.rmdir()
        with contextlib.suppress(OSError):  # another member has its folder there
            home.parent.rmdir()


def _current(home: Path) -> str:
    link = home / "current"
    return link.readlink().name if link.is_symlink() else ""


def _json(path: Path) -> dict[str, Any]:
    """The content of a file that this program wrote; empty without one."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _systemctl(*arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    return _command("systemctl", *arguments, check=check)


def _command(*command: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if check and done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise Failed(f"{Path(command[0]).name} {' '.join(command[1:3])}: {last}")
    return done


def main(request: dict[str, Any]) -> None:
    """Answer one request in one line on standard output."""
    try:
        result = {"ok": answer(request, sys.stdin.buffer)}
    except Failed as problem:
        result = {"failed": str(problem)}
    except OSError as problem:
        result = {"failed": f"{problem.filename or request['op']}: {problem.strerror or problem}"}
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
