"""Health checks: /healthz, /livez, /readyz, and /version.

A check is a coroutine that raises; `?verbose` lists them in Kubernetes' format.
"""

import platform
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import rota
from rota.apiserver.http import responses
from rota.apiserver.http.requests import Request
from rota.kit.clock import Clock
from rota.store import errors
from rota.store.store_interface import Store

Check: TypeAlias = Callable[[], Awaitable[None]]

#: The release of Kubernetes that clients see: they warn about servers much older or newer than themselves.
_MAJOR, _MINOR, _PATCH = "1", "33", "0"
_PATIENCE_S: Final = 5.0
PATHS: Final = ("/healthz", "/livez", "/readyz")


def version() -> dict[str, Any]:
    """The response to `kubectl version`."""
    return {
        "major": _MAJOR,
        "minor": _MINOR,
        "emulationMajor": _MAJOR,
        "emulationMinor": _MINOR,
        "gitVersion": f"v{_MAJOR}.{_MINOR}.{_PATCH}+rota-{rota.__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


class Health:
    """The checks of one server."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store: Final = store
        self._clock: Final = clock
        self._live: Final[Mapping[str, Check]] = {"ping": _ping}
        self._ready: Final[Mapping[str, Check]] = {"ping": _ping, "store": self._ask_store}

    async def page(self, request: Request) -> responses.Response | None:
        """The response for a health path; None for other paths."""
        root, _, single = request.path.lstrip("/").partition("/")
        checks = self._live if root == "livez" else self._ready
        if f"/{root}" not in PATHS or (single and single not in checks):
            return None
        chosen = {single: checks[single]} if single else checks
        excluded = request.query.get("exclude", "")
        outcomes = {name: await self._passes(check) for name, check in chosen.items() if name != excluded}
        healthy = all(outcomes.values())
        if healthy and "verbose" not in request.query:
            return responses.text(200, "ok")
        lines = [
            f"[+]{name} ok" if passed else f"[-]{name} failed: reason withheld" for name, passed in outcomes.items()
        ]
        lines.append(f"{root} check {'passed' if healthy else 'failed'}")
        return responses.text(200 if healthy else 500, "\n".join(lines) + "\n")

    async def _passes(self, check: Check) -> bool:
        try:
            await self._clock.wait_for(check(), _PATIENCE_S)
        except (TimeoutError, errors.StoreError):
            return False
        return True

    async def _ask_store(self) -> None:
        await self._store.check()


async def _ping() -> None:
    """A server that can answer is alive."""
