"""The settings of the batch profile: scheduler names, and a volcano-scheduler.conf that is reloaded on changes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rota.kit import logs
from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.scheduler.batch import conf, registry
from rota.scheduler.batch.conf import BatchConfiguration
from rota.scheduler.config.faults import ConfigurationError

log = logs.get(__name__)

#: Polling interval of the file. A poll is one `stat`.
POLL_S: Final = 1.0
#: The scheduler name of pods in Volcano's manifests.
SCHEDULER_NAME: Final = "volcano"


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """What the batch profile needs to know."""

    configuration: BatchConfiguration
    scheduler_names: tuple[str, ...] = (SCHEDULER_NAME,)


def default() -> BatchSettings:
    """The settings without a file: Volcano's built-in configuration."""
    return BatchSettings(conf.parse(conf.DEFAULT, registry.KNOWN))


def load(file: Path) -> BatchSettings:
    """Read a volcano-scheduler.conf; raises a UserError that names the place of each error."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error
    try:
        return BatchSettings(conf.parse(text, registry.KNOWN))
    except ConfigurationError as error:
        raise UserError(f"{file}: {'; '.join(map(str, error.faults))}") from error


class LiveBatchSettings:
    """The settings in force. `run` polls the file; an invalid one leaves the settings as they are."""

    def __init__(self, file: Path | None, *, clock: Clock) -> None:
        """Read the file; raises a UserError if it is invalid. Without a file the settings never change."""
        self._file: Final = file
        self._clock: Final = clock
        self._seen = self._fingerprint()
        self.settings: BatchSettings = default() if file is None else load(file)
        #: Called with new settings.
        self.apply: Callable[[BatchSettings], None] = lambda _: None
        #: Called with the error of an invalid file.
        self.refused: Callable[[str], None] = lambda _: None

    @property
    def chosen(self) -> bool:
        """Whether a file was named."""
        return self._file is not None

    async def run(self) -> None:
        """Poll the file until cancelled."""
        while self._file is not None:
            await self._clock.sleep(POLL_S)
            if self._fingerprint() != self._seen:
                self.reload()
        await asyncio.Event().wait()

    def reload(self) -> None:
        """Read the file again."""
        if self._file is None:
            return
        self._seen = self._fingerprint()
        try:
            settings = load(self._file)
        except UserError as error:
            log.error("batch configuration not loaded, the previous one stays in force", error=error)
            self.refused(str(error))
            return
        self.settings = settings
        self.apply(settings)
        log.warning("batch configuration loaded", actions=list(settings.configuration.actions))

    def _fingerprint(self) -> tuple[int, int, int] | None:
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
