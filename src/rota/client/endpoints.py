"""The endpoint of an API server and the client's identity there: a value that kubeconfig files and flags become."""

import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from rota.client.credentials import ANONYMOUS, Credentials
from rota.kit import errors


class EndpointError(errors.UserError):
    """The address or the TLS files of a server cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server and a client's identity there; PEM texts, not file names."""

    #: `https://host:port`, possibly with a path before `/api`.
    server: str
    #: Further servers of the same cluster, in case that one does not answer.
    fallbacks: tuple[str, ...] = ()
    certificate_authority: bytes | None = None
    client_certificate: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)
    #: The name in the server's certificate, if it is not that of the address.
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    credentials: Credentials = ANONYMOUS
    #: Headers of every request, for example for impersonation.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: The default namespace of commands.
    namespace: str = "default"

    def __post_init__(self) -> None:
        for server in (self.server, *self.fallbacks):
            parts = urlsplit(server)
            if parts.scheme not in {"http", "https"} or not parts.hostname:
                raise EndpointError(f"{server!r} is no server address", "write it like https://host:6443")

    def each(self) -> tuple["Endpoint", ...]:
        """One endpoint for each server."""
        return tuple(replace(self, server=server, fallbacks=()) for server in (self.server, *self.fallbacks))

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of connections; None over plain HTTP."""
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
        # The ssl module takes files only; this private file is deleted at once.
        with tempfile.TemporaryDirectory(prefix="rota-") as folder:
            path = Path(folder, "client.pem")
            path.touch(mode=0o600)
            path.write_bytes(certificate + b"\n" + (self.client_key or b""))
            try:
                context.load_cert_chain(path)
            except (ssl.SSLError, OSError) as error:
                raise EndpointError(f"the client certificate for {self.server} cannot be used: {error}") from None
