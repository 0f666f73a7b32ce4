"""The options by which a verb that serves HTTPS is told its certificate, as what a server needs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.kit import errors

if TYPE_CHECKING:
    import ssl


def context(
    certificate: Path | None, key: Path | None, *, client_ca: Path | None = None, prefix: str = ""
) -> "ssl.SSLContext | None":
    """What to serve HTTPS with, and only to those with a certificate of `client_ca`; None without a certificate."""
    import ssl  # noqa: PLC0415 - slow to import, and rarely needed here

    names = f"--{prefix}tls-cert and --{prefix}tls-key"
    if certificate is None and key is None:
        if client_ca is not None:
            raise click.UsageError(f"--client-ca needs {names}")
        return None
    if certificate is None or key is None:
        raise click.UsageError(f"{names} go together")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        made.load_cert_chain(certificate, key)
        if client_ca is not None:
            made.verify_mode = ssl.CERT_REQUIRED
            made.load_verify_locations(client_ca)
    except (ssl.SSLError, OSError) as problem:
        raise errors.UserError(f"the certificate, key or authority cannot be used: {problem}") from None
    return made
