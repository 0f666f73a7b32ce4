"""Keeps a container's variables from the programs that prepare it.

Shells and mounts run as root before the switch to the container's user, and variables tell programs what else to run:
where to look for others (PATH), what to load (LD_PRELOAD), what to read first (ENV). Such variables are restored after
the switch of user, on the command line; all others stay in the environment, out of the process list. Pure, except for
the agent's own PATH.
"""

import os
from collections.abc import Mapping
from typing import Final

#: Variables that make the loader, the C library, shells or mount run, read or write something.
_TELLING: Final = frozenset({
    "BLKID_FILE", "CDPATH", "ENV", "GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "GLOBIGNORE", "HOSTALIASES", "IFS",
    "LOCALDOMAIN", "LOCPATH", "NIS_PATH", "NLSPATH", "PATH", "PS4", "RESOLV_HOST_CONF", "RES_OPTIONS", "SHELLOPTS",
    "TMPDIR", "TZDIR",
})  # fmt: skip
_TELLING_PREFIXES: Final = ("BASH", "LD_", "LIBMOUNT_", "MALLOC_")
_USUAL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of the preparing programs."""
    harmless = {name: value for name, value in variables.items() if not _tells(name)}
    return {**harmless, "PATH": _own_path()}


def restored(variables: Mapping[str, str]) -> list[str]:
    """The prefix of the container's command that restores its variables; empty if none was removed."""
    back = [f"{name}={value}" for name, value in variables.items() if _tells(name)]
    if back == [f"PATH={_own_path()}"]:
        return []
    return ["env", *([] if "PATH" in variables else ["-u", "PATH"]), *back]


def _tells(name: str) -> bool:
    return name in _TELLING or name.startswith(_TELLING_PREFIXES)


def _own_path() -> str:
    return os.environ.get("PATH") or _USUAL_PATH
