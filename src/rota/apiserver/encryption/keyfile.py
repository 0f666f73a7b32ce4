"""The key file on disk: generated at the first start and watched, so that a new key needs no restart.

A file that becomes unreadable or invalid while a server runs is reported, and the known keys stay in use. It is
replaced atomically and readable by its owner only.
"""

import contextlib
import os
import secrets
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rota.apiserver.encryption import configuration
from rota.apiserver.encryption.configuration import ConfigurationError, Rule
from rota.apiserver.encryption.envelope import KEY_BYTES, Key, Vault
from rota.kit import logs
from rota.kit.clock import Clock

log = logs.get(__name__)

_LOOK_EVERY_S: Final = 10.0
_OTHERS: Final = 0o077


class KeyFile:
    """The current content of the file."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """ConfigurationError if there is no such file or it is invalid."""
        self.path: Final = path
        self._clock: Final = clock
        self._read: object = _identity(path)
        self.vault: Vault = configuration.vault(read(path), source=str(path))

    async def run(self) -> None:
        """Watch the file until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_EVERY_S)
            self.look()

    def look(self) -> bool:
        """Read the file if it has changed; returns whether there is something new."""
        found = _identity(self.path)
        if found == self._read:
            return False
        self._read = found
        try:
            vault = configuration.vault(read(self.path), source=str(self.path))
            self.vault = self._of_the_same_resources(vault)
        except ConfigurationError as error:
            log.error("cannot read the key file, keeping the known encryption keys", error=error)
            return False
        names = sorted({name for ring in self.vault.rings.values() for name in ring.names})
        log.info("encryption keys reloaded", keys=names)
        return True

    def _of_the_same_resources(self, vault: Vault) -> Vault:
        """New keys for the resources that were encrypted at the start: running watches do not decrypt others."""
        before = set(self.vault.rings)
        if gone := before - set(vault.rings):
            raise ConfigurationError(f"{self.path} no longer has keys for {', '.join(sorted(gone))}", "put them back")
        if added := set(vault.rings) - before:
            log.warning("restart to encrypt more resources", prefixes=sorted(added))
        return Vault({prefix: ring for prefix, ring in vault.rings.items() if prefix in before})


def read(path: Path) -> tuple[Rule, ...]:
    """The rules of the file; ConfigurationError if it is invalid."""
    try:
        text = path.read_text()
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigurationError(f"cannot read the key file {path}: {error.strerror}", "put it back") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is no key file: it is not text") from None
    if mode & _OTHERS:
        raise ConfigurationError(f"others than its owner may use the key file {path}", f"chmod 600 {path}")
    return configuration.parse(text, source=str(path))


def generate(path: Path, *, now: float) -> None:
    """Generate the file with one new key; an existing file is kept."""
    rule = Rule(resources=configuration.DEFAULT_RESOURCES, keys=(new_key(now=now, taken=()),))
    with contextlib.suppress(FileExistsError):
        _write(path, configuration.render((rule,)), over=False)


def add_key(path: Path, *, now: float) -> str:
    """Put a new key first, for every resource in the file; returns its name."""
    rules = read(path)
    key = new_key(now=now, taken=[known.name for rule in rules for known in rule.keys])
    _write(path, configuration.render(tuple(rule.with_key(key) for rule in rules)), over=True)
    return key.name


def forget_keys(path: Path, names: frozenset[str]) -> None:
    """Remove keys from the file; values encrypted with them are lost."""
    kept = tuple(replace(rule, keys=tuple(key for key in rule.keys if key.name not in names)) for rule in read(path))
    _write(path, configuration.render(kept), over=True)


def new_key(*, now: float, taken: Collection[str]) -> Key:
    """A key named after the date."""
    day = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")
    name, number = day, 1
    while name in taken:
        number += 1
        name = f"{day}.{number}"
    return Key(name, secrets.token_bytes(KEY_BYTES))


def _write(path: Path, text: str, *, over: bool) -> None:
    """Replace the file atomically, readable by its owner only."""
    unready = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(unready, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            if over:
                unready.rename(path)
            else:
                os.link(unready, path)
        finally:
            unready.unlink(missing_ok=True)
    except FileExistsError:
        raise
    except OSError as error:
        raise ConfigurationError(
            f"cannot write the key file {path}: {error.strerror}", "name one in a folder that this user may write"
        ) from None


def _identity(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
