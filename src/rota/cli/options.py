"""Options that several commands share, and the default data folder and store."""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from rota.kit import default_paths, errors

_F = TypeVar("_F", bound=Callable[..., Any])

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LAST_PORT: Final = 65_535
_DURATION: Final = re.compile(r"(\d+)([smhd])")

#: `-n`, as kubectl has it.
namespace_option = click.option(
    "-n", "--namespace", default="", metavar="NAME", help="The namespace.  [default: the context's]"
)
everywhere_option = click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="All namespaces.")
selector_option = click.option(
    "-l",
    "--selector",
    "labels",
    default="",
    metavar="SELECTOR",
    help="Only objects with these labels: app=web,tier!=db.",
)
container_option = click.option(
    "-c", "--container", default="", metavar="NAME", help="The container.  [default: the first]"
)
#: `--dry-run`, of commands that change something.
dry_run_option = click.option("--dry-run", is_flag=True, help="Print what would be done and change nothing.")


def task_user_options(command: _F) -> _F:
    """Add `--run-as` and `--allow-root`, for commands that run workers."""
    command = click.option(
        "--allow-root",
        is_flag=True,
        help="Allow pods to run as any user of this machine, including root, and containers to mount any of its files.",
    )(command)
    return click.option(
        "--run-as",
        default="",
        metavar="USER[:GROUP]",
        envvar="ROTA_RUN_AS",
        show_envvar=True,
        help="User of tasks that run as processes.  [default: this user; for root, an unprivileged user without files]",
    )(command)


class Duration(click.ParamType[float]):
    """`30s`, `5m`, `24h`, `7d`, and 0."""

    name = "DURATION"

    def __init__(self, *, nothing: str = "") -> None:
        """`nothing` is the meaning of 0; without it, 0 is refused."""
        self._nothing: Final = nothing

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        if isinstance(value, float):
            return value
        if value == "0" and self._nothing:
            return 0.0
        match = _DURATION.fullmatch(str(value))
        if match is None or not int(match[1]):
            zero = f", or 0 for {self._nothing}" if self._nothing else ""
            self.fail(f"{value!r} is no duration; write 30m, 24h or 7d{zero}", param, ctx)
        return float(int(match[1]) * _UNITS[match[2]])


class Address(click.ParamType[tuple[str, int]]):
    """`HOST:PORT`, `[::]:PORT`, or `PORT` alone for this machine only."""

    name = "[HOST:]PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """The host, and the port."""
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not (port.isascii() and port.isdigit() and int(port) <= _LAST_PORT) or (":" in host and host[0] != "["):
            self.fail(f"{value!r} is no address; write 9464, or 0.0.0.0:9464 for all of this machine's", param, ctx)
        return host.strip("[]") or "127.0.0.1", int(port)


def http_option(what: str) -> Callable[[_F], _F]:
    """`--http [HOST:]PORT`: the diagnostics server of a component; `what` names its pages."""
    return click.option(
        "--http",
        type=Address(),
        metavar="[HOST:]PORT",
        help=f"Serve {what} on this address, without TLS; the default host is loopback.",
    )


def duration_option(flag: str, default: str, text: str, *, nothing: str = "") -> Callable[[_F], _F]:
    """An option for a duration with a default; the command gets its seconds as `<name>_s`."""
    name = f"{flag.removeprefix('--').replace('-', '_')}_s"
    return click.option(flag, name, type=Duration(nothing=nothing), default=default, show_default=True, help=text)


def health_options(command: _F) -> _F:
    """Add the options of commands that observe the members of a federation."""
    for option in (
        duration_option(
            "--unschedulable-after",
            "5m",
            "Move replicas that a member has not been able to schedule for this time to other members.",
        ),
        duration_option(
            "--threshold",
            "30s",
            "How long a member's health must have changed before its condition changes; 0: at once.",
            nothing="at once",
        ),
        duration_option("--every", "10s", "Interval of health checks of members."),
    ):
        command = option(command)
    return command


def data_folder() -> Path:
    """The data folder of this user."""
    return default_paths.data_folder()


_OUR_FILES: Final = ("rota.db", "kubeconfig")


def made_folder(folder: Path) -> Path:
    """Create the folder if it is missing; make it private to this user if it is empty or has Rota's files."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        # a folder with other files, such as a home folder, may be open to other users for a reason
        ours = any((folder / name).exists() for name in _OUR_FILES) or not any(folder.iterdir())
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077 and ours:
            folder.chmod(0o700)
    except OSError as problem:
        raise errors.UserError(
            f"cannot make the folder {folder}: {problem.strerror}", "set ROTA_HOME to one that this user may write"
        ) from problem
    return folder


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite store in this file; special characters are percent-encoded."""
    return "sqlite:///" + str(path).replace("%", "%25").replace("?", "%3F").replace("#", "%23")


def default_store_url() -> str:
    """The store of `rota up`, the default of other commands."""
    return os.environ.get("ROTA_STORE") or sqlite_url(data_folder() / "rota.db")


def refuse_memory(store_url: str) -> None:
    """Refuse memory:// for commands that read or fill a store that outlives the process."""
    if store_url.startswith("memory:"):
        raise click.UsageError(f"{store_url} exists only in this process; name a store on disk or on a server")


def store_option(meaning: str) -> Callable[[_F], _F]:
    """`--store URL`; its help begins with `meaning`."""
    return click.option(
        "--store",
        "store_url",
        metavar="URL",
        default=default_store_url,
        show_default="$ROTA_STORE, or rota.db in the data folder",
        help=f"{meaning} sqlite:///path, postgresql://..., etcd://host:port[,host:port] (etcds:// with TLS) or memory://.",
    )


def backup_key_option(meaning: str) -> Callable[[_F], _F]:
    """`--key FILE`: the key of an encrypted backup."""
    return click.option(
        "--key",
        "key_file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help=f"{meaning} 32 bytes in base64.",
    )
