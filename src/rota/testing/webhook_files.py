"""Certificates for a webhook on a port of this machine, as the options of a command take them."""

import socket
from pathlib import Path

from rota.kit import system
from rota.pki.authorities import Authority, Purpose
from rota.pki.certificates import Names, Subject

_LIFETIME_S = 3600.0


def options(
    folder: Path, *, listen: str = "--webhooks", url: str = "--webhook-url", ca: str = "--webhook-ca"
) -> list[str]:
    """Write the files to a folder; returns the options of a command that serves and registers its webhooks there."""
    now = system.SystemClock().now()
    authority = Authority.create(now=now)
    own = authority.issue(
        Subject(common_name="webhooks"),
        names=Names.of(("127.0.0.1",)),
        purpose=Purpose.SERVER,
        now=now,
        lifetime_s=_LIFETIME_S,
    )
    for name, text in (("ca.crt", authority.certificate_pem), ("tls.crt", own.certificate), ("tls.key", own.key)):
        (folder / name).write_bytes(text)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    found = [listen, f"127.0.0.1:{port}", "--tls-cert", str(folder / "tls.crt"), "--tls-key", str(folder / "tls.key")]
    return [*found, url, f"https://127.0.0.1:{port}", ca, str(folder / "ca.crt")]
