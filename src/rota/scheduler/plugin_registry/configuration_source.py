"""The source of a scheduler configuration, and the configuration in force.

A `ConfigurationSource` names a KubeSchedulerConfiguration file and Python files with plugins. Every command that
decides reads its configuration here, so the same file means the same decisions everywhere. A `LiveConfiguration` polls
the files while a process runs: a change takes effect without a restart, and an invalid file leaves the configuration in
force as it is.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rota.kit import logs
from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.framework.registry import Registry
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.plugin_registry.third_party import Loaded

log = logs.get(__name__)

STANDARD_INPUT: Final = Path("-")
#: Polling interval. A poll is one `stat` per file.
POLL_S: Final = 1.0

_Fingerprint = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class ConfigurationSource:
    """A configuration file, and files with plugin classes; without a file, the stock configuration."""

    file: Path | None = None
    plugins: tuple[Path, ...] = ()
    #: A volcano-scheduler.conf for the batch profile; without one, Volcano's built-in configuration.
    batch: Path | None = None

    def registry(self) -> Registry:
        """The built-in plugins and those of the plugin files, which are executed again on every call."""
        return self._registry()[0]

    def load(self) -> Loaded:
        """Read the files and build every profile once; raises a UserError that names the fault and its place."""
        registry, own = self._registry()
        loaded = third_party.default(registry) if self.file is None else self._load_file(self.file, registry)
        _require_enabled(loaded, own)
        frameworks(loaded)
        return loaded

    def fingerprint(self) -> _Fingerprint:
        """Changes when a file has changed; empty without files."""
        return tuple(map(_identity, filter(None, (self.file, *self.plugins))))

    def _load_file(self, file: Path, registry: Registry) -> Loaded:
        if file == STANDARD_INPUT:
            text = sys.stdin.buffer.read()
        else:
            try:
                text = file.read_bytes()
            except OSError as error:
                raise UserError(f"cannot read {file}: {error.strerror}") from error
            # `module:Class` in a profile also finds modules beside the file.
            if (folder := str(file.absolute().parent)) not in sys.path:
                sys.path.insert(0, folder)
        try:
            return third_party.load(text, registry)
        except ConfigurationError as error:
            raise UserError(f"{file}: {'; '.join(map(str, error.faults))}") from error

    def _registry(self) -> tuple[Registry, dict[Path, list[str]]]:
        """The plugins, and the names of those in each plugin file."""
        known = builtin.registry()
        registry = Registry(known[name] for name in known)
        own: dict[Path, list[str]] = {}
        for path in self.plugins:
            try:
                for plugin in third_party.plugins_in_file(path):
                    third_party.register(plugin, registry)
                    own.setdefault(path, []).append(plugin.name)
            except third_party.NotLoadableError as error:
                raise UserError(f"{path}: {error}") from error
        return registry, own


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _require_enabled(loaded: Loaded, own: Mapping[Path, list[str]]) -> None:
    """Refuse a plugin file that no profile uses: it would have no effect."""
    used = {
        enabled.name
        for profile in loaded.configuration.profiles.values()
        for plugins in profile.points.values()
        for enabled in plugins
    }
    for path, names in own.items():
        if used.isdisjoint(names):
            raise UserError(
                f"{path}: no profile enables {' or '.join(names)}",
                "enable it under profiles[].plugins in the file of --scheduler-config",
            )


def frameworks(loaded: Loaded) -> dict[str, Framework]:
    """Build the plugins of every profile; raises a UserError that names the profile whose plugin cannot be built."""
    built = {}
    for name, profile in loaded.configuration.profiles.items():
        try:
            built[name] = Framework(profile, loaded.registry)
        except Exception as error:  # third-party code
            message = f"a plugin of profile {name} cannot be built: {type(error).__name__}: {error}"
            raise UserError(message, "check its constructor and its pluginConfig") from error
    return built


class LiveConfiguration:
    """The configuration in force. `run` polls the files; `apply` applies a new configuration."""

    def __init__(self, source: ConfigurationSource, *, clock: Clock) -> None:
        """Read the configuration; raises a UserError if it is invalid."""
        self._source: Final = source
        self._clock: Final = clock
        self._seen = source.fingerprint()
        #: What the files say.
        self.base: Loaded = source.load()
        #: What is in force: the files, altered by `alter`.
        self.loaded: Loaded = self.base
        self._alteration: Callable[[Loaded], Loaded] = lambda base: base
        #: Applies a new configuration before it is in force; raises if that is impossible.
        self.apply: Callable[[Loaded], None] = lambda _: None
        #: Called with the error of an invalid file.
        self.refused: Callable[[str], None] = lambda _: None

    async def run(self) -> None:
        """Poll the files until cancelled."""
        while self._seen:
            await self._clock.sleep(POLL_S)
            if self._source.fingerprint() != self._seen:
                self.reload()
        # The stock configuration never changes.
        await asyncio.Event().wait()

    def reload(self) -> None:
        """Read the files again. An invalid file changes nothing and is reported."""
        self._seen = self._source.fingerprint()
        try:
            base = self._source.load()
            loaded = self._alteration(base)
            self.apply(loaded)
        except Exception as error:  # whatever is wrong with the files, the configuration in force stays
            if isinstance(error, UserError):
                log.error("scheduler configuration not loaded, the previous one stays in force", error=error)
            else:
                log.exception("scheduler configuration not loaded, the previous one stays in force", error=error)
            self.refused(str(error))
            return
        self.base, self.loaded = base, loaded
        log.warning("scheduler configuration loaded", profiles=list(loaded.configuration.profiles))

    def alter(self, alteration: Callable[[Loaded], Loaded]) -> None:
        """Put a change on top of the files that are in force and of later ones; if it fails, nothing changes."""
        loaded = alteration(self.base)
        self.apply(loaded)
        self._alteration, self.loaded = alteration, loaded


class LiveFrameworks(Mapping[str, Framework]):
    """The frameworks of the configuration in force by scheduler name; built again when that changes."""

    def __init__(self, configuration: LiveConfiguration) -> None:
        self._configuration: Final = configuration
        self._built_from = configuration.loaded
        self._built = frameworks(self._built_from)

    def _current(self) -> Mapping[str, Framework]:
        loaded = self._configuration.loaded
        if loaded is not self._built_from:
            self._built, self._built_from = frameworks(loaded), loaded
        return self._built

    def __getitem__(self, scheduler_name: str) -> Framework:
        return self._current()[scheduler_name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())
