"""A container's variables, kept from the programs that prepare it.

Shells and mounts run as root before the container's own user is taken on, and variables tell programs what else to run:
where to look for others (PATH), what to load (LD_PRELOAD), what to read first (ENV). Such variables come back to the
container behind the change of user, on the command line; all others stay where they are, out of sight. Pure, but for
the agent's own PATH.
"""

import os
from collections.abc import Mapping
from typing import Final

#: With which the loader, the C library, shells or mount can be made to run, read or write something.
_TELLING: Final = frozenset({
    "BLKID_FILE", "CDPATH", "ENV", "GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "GLOBIGNORE", "HOSTALIASES", "IFS",
    "LOCALDOMAIN", "LOCPATH", "NIS_PATH", "NLSPATH", "PATH", "PS4", "RESOLV_HOST_CONF", "RES_OPTIONS", "SHELLOPTS",
    "TMPDIR", "TZDIR",
})  # fmt: skip
_TELLING_PREFIXES: Final = ("BASH", "LD_", "LIBMOUNT_", "MALLOC_")
_USUAL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """What the preparing programs see."""
    harmless = {name: value for name, value in variables.items() if not _tells(name)}
    return {**harmless, "PATH": _own_path()}


def restored(variables: Mapping[str, str]) -> list[str]:
    """What to put before the container's command, so that it sees its variables; nothing if it does already."""
    back = [f"{name}={value}" for name, value in variables.items() if _tells(name)]
    if back == [f"PATH={_own_path()}"]:
        return []
    return ["env", *([] if "PATH" in variables else ["-u", "PATH"]), *back]


def _tells(name: str) -> bool:
    return name in _TELLING or name.startswith(_TELLING_PREFIXES)


def _own_path() -> str:
    return os.environ.get("PATH") or _USUAL_PATH
