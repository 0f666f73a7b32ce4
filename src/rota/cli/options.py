"""Options that several verbs share, and where Rota keeps its data unless told otherwise."""

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
everywhere_option = click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Of all namespaces.")
selector_option = click.option(
    "-l", "--selector", "labels", default="", metavar="SELECTOR", help="Only those with these labels: app=web,tier!=db."
)
container_option = click.option(
    "-c", "--container", default="", metavar="NAME", help="Which container.  [default: the first]"
)
#: How verbs that change something are told to only say what they would do.
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")


def task_user_options(command: _F) -> _F:
    """`--run-as` and `--allow-root`, of everything that has workers."""
    command = click.option(
        "--allow-root",
        is_flag=True,
        help="Let pods run as any user of this machine, root included, and let containers reach all of its files.",
    )(command)
    return click.option(
        "--run-as",
        default="",
        metavar="USER[:GROUP]",
        envvar="ROTA_RUN_AS",
        show_envvar=True,
        help="Whom tasks run as that are processes.  [default: this user; if that is root, a user that owns nothing]",
    )(command)


class Duration(click.ParamType[float]):
    """`30s`, `5m`, `24h`, `7d`, and 0."""

    name = "DURATION"

    def __init__(self, *, nothing: str = "") -> None:
        """`nothing` says what 0 means; without it, 0 is refused."""
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
    """`--http [HOST:]PORT`: where a part tells about itself; `what` says which pages there are."""
    return click.option(
        "--http",
        type=Address(),
        metavar="[HOST:]PORT",
        help=f"Serve {what} here, without TLS; on loopback, if no host is named.",
    )


def data_folder() -> Path:
    """Where the data of this user's Rota lies."""
    return default_paths.data_folder()


_OUR_FILES: Final = ("rota.db", "kubeconfig")


def made_folder(folder: Path) -> Path:
    """The folder, for this user alone: made if it is missing, closed to others if it is ours or empty."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        # one with other things in it, such as a home folder, may be open to others for a reason
        ours = any((folder / name).exists() for name in _OUR_FILES) or not any(folder.iterdir())
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077 and ours:
            folder.chmod(0o700)
    except OSError as problem:
        raise errors.UserError(
            f"cannot make the folder {folder}: {problem.strerror}", "set ROTA_HOME to one that this user may write"
        ) from problem
    return folder


def sqlite_url(path: Path) -> str:
    """The URL of a store in this file; signs that mean something in a URL are written out."""
    return "sqlite:///" + str(path).replace("%", "%25").replace("?", "%3F").replace("#", "%23")


def default_store_url() -> str:
    """The store that `rota up` uses and that other verbs therefore mean."""
    return os.environ.get("ROTA_STORE") or sqlite_url(data_folder() / "rota.db")


def refuse_memory(store_url: str) -> None:
    """A store that lives in this process has nothing to back up, and would keep nothing that is restored."""
    if store_url.startswith("memory:"):
        raise click.UsageError(f"{store_url} lives and dies with this process, so there is nothing to gain from it")


def store_option(meaning: str) -> Callable[[_F], _F]:
    """`--store URL`; `meaning` completes its help."""
    return click.option(
        "--store",
        "store_url",
        metavar="URL",
        default=default_store_url,
        show_default="$ROTA_STORE, or rota.db in the data folder",
        help=f"{meaning} sqlite:///path, postgresql://..., etcd://host:port[,host:port] (etcds:// with TLS) or memory://.",
    )
