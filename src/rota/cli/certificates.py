"""The options by which a verb that serves HTTPS is told its certificate, as what a server needs.

Whoever renews certificates exchanges the files: the next one that connects is shown what they hold then. Files that
cannot be used change nothing, and that is logged once.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rota.kit import errors, logs

if TYPE_CHECKING:
    import ssl

log = logs.get(__name__)


def context(
    certificate: Path | None, key: Path | None, *, client_ca: Path | None = None, prefix: str = ""
) -> "ssl.SSLContext | None":
    """What to serve HTTPS with, and only to those with a certificate of `client_ca`; None without a certificate."""
    names = f"--{prefix}tls-cert and --{prefix}tls-key"
    if certificate is None and key is None:
        if client_ca is not None:
            raise click.UsageError(f"--client-ca needs {names}")
        return None
    if certificate is None or key is None:
        raise click.UsageError(f"{names} go together")
    try:
        return _Files(certificate, key, client_ca).current
    except OSError as problem:
        raise errors.UserError(f"the certificate, key or authority cannot be used: {problem}") from None


class _Files:
    """A certificate, its key and perhaps an authority, as they are now."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        self._certificate: Final = certificate
        self._key: Final = key
        self._client_ca: Final = client_ca
        self._seen = self._looks()
        self._problem = ""
        self.current: ssl.SSLContext = self._loaded()
        self.current.sni_callback = self._shake_hands

    def _looks(self) -> tuple[tuple[int, int], ...]:
        """What changes with the files, also where they are links that are put in the place of others."""
        found = (path.stat() for path in (self._certificate, self._key, self._client_ca) if path is not None)
        return tuple((one.st_ino, one.st_mtime_ns) for one in found)

    def _loaded(self) -> "ssl.SSLContext":
        import ssl  # noqa: PLC0415 - slow to import, and rarely needed here

        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.load_cert_chain(self._certificate, self._key)
        if self._client_ca is not None:
            made.verify_mode = ssl.CERT_REQUIRED
            made.load_verify_locations(self._client_ca)
        return made

    def _shake_hands(self, connection: Any, _name: str | None, _context: "ssl.SSLContext") -> None:
        """Called in every handshake, before a certificate is shown."""
        try:
            looks = self._looks()
            if looks != self._seen:
                self._seen = looks
                self.current = self._loaded()
                self._problem = ""
                log.info("certificate renewed", file=self._certificate)
        except OSError as problem:  # the ssl module's errors are such, too
            if str(problem) != self._problem:
                log.warning("certificate not renewed; the old one stays", file=self._certificate, error=problem)
            self._problem = str(problem)
        connection.context = self.current
