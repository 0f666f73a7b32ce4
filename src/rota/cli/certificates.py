"""TLS contexts from the certificate options of a command that serves HTTPS.

The files are read again when they change: the next handshake uses the new certificate. If the new files cannot be
used, the old certificate stays, and the error is logged once.
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
    """The context to serve HTTPS with, or None without a certificate; with `client_ca`, clients need a certificate."""
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
        raise errors.UserError(f"the certificate, key or CA cannot be used: {problem}") from None


class _Files:
    """A certificate, its key and optionally a client CA, reloaded when the files change."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        self._certificate: Final = certificate
        self._key: Final = key
        self._client_ca: Final = client_ca
        self._seen = self._fingerprint()
        self._problem = ""
        self.current: ssl.SSLContext = self._loaded()
        self.current.sni_callback = self._on_handshake

    def _fingerprint(self) -> tuple[tuple[int, int], ...]:
        """Inode and modification time of each file; a replaced symbolic link changes them too."""
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

    def _on_handshake(self, connection: Any, _name: str | None, _context: "ssl.SSLContext") -> None:
        """The SNI callback: called in every handshake before the certificate is sent."""
        try:
            fingerprint = self._fingerprint()
            if fingerprint != self._seen:
                self._seen = fingerprint
                self.current = self._loaded()
                self._problem = ""
                log.info("certificate reloaded", file=self._certificate)
        except OSError as problem:  # ssl.SSLError is an OSError
            if str(problem) != self._problem:
                log.warning("certificate not reloaded; the old one stays in use", file=self._certificate, error=problem)
            self._problem = str(problem)
        connection.context = self.current
