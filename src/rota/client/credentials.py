"""Credentials of a client: the value of the `Authorization` header, refreshed when it may have changed.

Client certificates are not here: they belong to the connection and are in `endpoints`.
"""

import asyncio
import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from rota.api import times
from rota.kit import errors
from rota.kit.clock import Clock

#: Service account tokens are rotated hourly at most, well before the old one expires.
_REREAD_S: Final = 60.0
#: A credential this close to its expiry is replaced, so that it does not expire in flight.
_MARGIN_S: Final = 10.0
#: A user may have to log in with a browser.
_PLUGIN_PATIENCE_S: Final = 300.0
_PLUGIN_GROUP: Final = "client.authentication.k8s.io/"


class CredentialError(errors.UserError):
    """Credentials are not available."""


class Credentials(Protocol):
    """A source of `Authorization` headers."""

    async def authorization(self) -> str:
        """The value of the header; empty for none."""
        ...

    def reject(self) -> bool:
        """The server refused the last value. True if the next one may be different."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """A constant header."""

    value: str = field(default="", repr=False)

    async def authorization(self) -> str:
        """See `Credentials.authorization`."""
        return self.value

    def reject(self) -> bool:
        """See `Credentials.reject`."""
        return False


ANONYMOUS: Final = Fixed()


def bearer(token: str) -> Fixed:
    """A token."""
    return Fixed(f"Bearer {token}")


def basic(username: str, password: str) -> Fixed:
    """A name and a password."""
    return Fixed("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode())


class TokenFile:
    """A token in a file that another program keeps fresh."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path: Final = path
        self._clock: Final = clock
        self._value = ""
        self._read_at: float | None = None

    async def authorization(self) -> str:
        """See `Credentials.authorization`."""
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= _REREAD_S:
            try:
                token = (await asyncio.to_thread(self._path.read_text)).strip()
            except OSError as error:
                # While the file is being replaced, the previous token is still valid.
                if not self._value:
                    raise CredentialError(
                        f"cannot read the token file {self._path}: {error.strerror}", "check that it is mounted"
                    ) from None
            else:
                self._value = f"Bearer {token}"
                self._read_at = now
        return self._value

    def reject(self) -> bool:
        """See `Credentials.reject`."""
        self._read_at = None
        return True


class ExecPlugin:
    """A program that prints an `ExecCredential`; it runs again shortly before the credential expires."""

    def __init__(
        self,
        command: str,
        arguments: Sequence[str] = (),
        *,
        clock: Clock,
        environment: Mapping[str, str] | None = None,
        api_version: str = _PLUGIN_GROUP + "v1",
        install_hint: str = "",
    ) -> None:
        self._command: Final = command
        self._arguments: Final = tuple(arguments)
        self._clock: Final = clock
        self._environment: Final = dict(environment or {})
        self._api_version: Final = api_version
        self._hint: Final = install_hint
        self._asking: Final = asyncio.Lock()
        self._value: str | None = None
        self._expires: float | None = None

    async def authorization(self) -> str:
        """See `Credentials.authorization`."""
        async with self._asking:
            expired = self._expires is not None and self._clock.now() >= self._expires - _MARGIN_S
            if self._value is None or expired:
                status = _status(await self._run(), self._command)
                self._value = f"Bearer {status['token']}"
                self._expires = times.parse(status["expirationTimestamp"]) if "expirationTimestamp" in status else None
            return self._value

    def reject(self) -> bool:
        """See `Credentials.reject`."""
        self._value = None
        return True

    async def _run(self) -> bytes:
        request = {"apiVersion": self._api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **self._environment, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            )
        except OSError as error:
            raise CredentialError(
                f"cannot run the credential plugin {self._command}: {error.strerror}", self._hint
            ) from None
        try:
            output, complaint = await self._clock.wait_for(process.communicate(), _PLUGIN_PATIENCE_S)
        except TimeoutError:
            raise CredentialError(f"the credential plugin {self._command} does not finish", self._hint) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            said = complaint.decode(errors="replace").strip()[-500:]
            raise CredentialError(
                f"the credential plugin {self._command} failed with code {process.returncode}: {said}", self._hint
            )
        return output


def _status(output: bytes, command: str) -> dict[str, Any]:
    try:
        answer = json.loads(output)
        status = answer["status"]
        if not answer["apiVersion"].startswith(_PLUGIN_GROUP) or not isinstance(status["token"], str):
            raise KeyError("token")
        return dict(status)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CredentialError(
            f"the credential plugin {command} did not print an ExecCredential with status.token",
            "plugins that hand out certificates are not supported",
        ) from None
