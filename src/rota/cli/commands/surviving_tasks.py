"""The tasks that keep running after `rota up` stops; the next start finds them."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rota.api import errors as api_errors
from rota.api import meta
from rota.client import client_factory, kubeconfig
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Selection, Settings
from rota.kit import system

#: Limit of the time that the list may delay the stop of `rota up`.
_PATIENCE_S: Final = 2.0
_MOST_NAMES: Final = 5


class SurvivingTasks:
    """The running tasks of this machine's workers, right before `rota up` stops."""

    def __init__(self) -> None:
        self._config: Path | None = None
        self._workers: frozenset[str] = frozenset()
        self._names: list[str] = []

    def note(self, facts: Mapping[str, str]) -> None:
        """Record the API's address and the workers."""
        self._config = Path(facts["config"])
        self._workers = frozenset(filter(None, facts.get("workers", "").split(", ")))

    async def look(self) -> None:
        """Read the running tasks; an unavailable API does not delay the stop."""
        if self._config is None or not self._workers:
            return
        clock = system.SystemClock()
        with contextlib.suppress(api_errors.ApiError, TransportError, TimeoutError):
            self._names = await clock.wait_for(self._running(self._config), _PATIENCE_S)

    async def _running(self, config: Path) -> list[str]:
        clock = system.SystemClock()
        endpoint = kubeconfig.load(config, clock=clock)
        async with client_factory.to_server(
            endpoint, clock=clock, rng=system.rng(), settings=Settings(retry=False)
        ) as client:
            found = (await client.list(PODS, selection=Selection(fields="status.phase=Running"))).items
        return [meta.name(pod) for pod in found if (pod.get("spec") or {}).get("nodeName") in self._workers]

    def text(self) -> str:
        """The addition to the last line; empty if no task continues."""
        if not self._names:
            return ""
        shown = ", ".join(self._names[:_MOST_NAMES])
        more = f" and {len(self._names) - _MOST_NAMES} more" if len(self._names) > _MOST_NAMES else ""
        tasks = "1 task goes" if len(self._names) == 1 else f"{len(self._names)} tasks go"
        them = "it" if len(self._names) == 1 else "them"
        return f" {tasks} on: {shown}{more}; the next `rota up` on this data takes {them} up again."
