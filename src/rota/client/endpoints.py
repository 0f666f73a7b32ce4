"""Where an API server is and how to be trusted by it: a value that kubeconfig files and flags are turned into."""

import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from rota.client.credentials import ANONYMOUS, Credentials
from rota.kit import errors


class EndpointError(errors.UserError):
    """The address or the TLS material of a server cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server and a client's identity there; PEM texts, not file names."""

    #: `https://host:port`, perhaps with a path in front of `/api`.
    server: str
    #: Further servers of the same cluster, for when that one does not answer.
    fallbacks: tuple[str, ...] = ()
    certificate_authority: bytes | None = None
    client_certificate: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)
    #: The name that the server's certificate is checked for, if not the address' own.
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    credentials: Credentials = ANONYMOUS
    #: Sent with every call, as impersonation is.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Where commands look that were not told a namespace.
    namespace: str = "default"

    def __post_init__(self) -> None:
        for server in (self.server, *self.fallbacks):
            parts = urlsplit(server)
            if parts.scheme not in {"http", "https"} or not parts.hostname:
                raise EndpointError(f"{server!r} is no server address", "write it like https://host:6443")

    def each(self) -> tuple["Endpoint", ...]:
        """One endpoint for every server."""
        return tuple(replace(self, server=server, fallbacks=()) for server in (self.server, *self.fallbacks))

    def tls(self) -> ssl.SSLContext | None:
        """What connections are secured with; None over plain HTTP."""
        if not self.server.startswith("https:"):
            return None
        try:
            authorities = None if self.certificate_authority is None else self.certificate_authority.decode()
            context = ssl.create_default_context(cadata=authorities)
        except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
            raise EndpointError(f"the certificate authority of {self.server} cannot be read: {error}") from None
        if self.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.client_certificate is not None:
            self._identify(context, self.client_certificate)
        return context

    def _identify(self, context: ssl.SSLContext, certificate: bytes) -> None:
        # The ssl module takes files only; this one is ours alone and gone at once.
        with tempfile.TemporaryDirectory(prefix="rota-") as folder:
            path = Path(folder, "client.pem")
            path.touch(mode=0o600)
            path.write_bytes(certificate + b"\n" + (self.client_key or b""))
            try:
                context.load_cert_chain(path)
            except (ssl.SSLError, OSError) as error:
                raise EndpointError(f"the client certificate for {self.server} cannot be used: {error}") from None
