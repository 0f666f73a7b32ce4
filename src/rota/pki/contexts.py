"""TLS settings: one's own certificate, which may be replaced while it is in use, and whose others are believed."""

import ssl
import tempfile
from pathlib import Path
from typing import Final

from rota.pki.certificates import Identity

#: OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which the ssl module has no name for.
_NO_CHECK_TIME: Final = 0x200000


def server(identity: Identity, *, client_authorities: bytes, check_times: bool = True) -> ssl.SSLContext:
    """For a listener. Clients may show a certificate; if they do, it must be of these authorities (PEM).

    Without `check_times`, the listener has to check with every request that the certificate is valid now. It can then
    say so in an answer; a handshake that fails only closes the connection.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # HTTP/2 is not spoken, and clients that are not told would try it
    context.set_alpn_protocols(["http/1.1"])
    context.verify_mode = ssl.CERT_OPTIONAL
    if not check_times:
        context.verify_flags = ssl.VerifyFlags(context.verify_flags | _NO_CHECK_TIME)
    context.load_verify_locations(cadata=client_authorities.decode())
    use(context, identity)
    return context


def client(identity: Identity, *, server_authorities: bytes) -> ssl.SSLContext:
    """For connections to servers with a certificate of these authorities (PEM), to which this one is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=server_authorities.decode())
    use(context, identity)
    return context


def use(context: ssl.SSLContext, identity: Identity) -> None:
    """Show this certificate from the next handshake on; connections that stand are not touched."""
    # The ssl module takes files only; this one is ours alone and gone at once.
    with tempfile.TemporaryDirectory(prefix="rota-") as folder:
        path = Path(folder, "identity.pem")
        path.touch(mode=0o600)
        path.write_bytes(identity.certificate + b"\n" + identity.key)
        context.load_cert_chain(path)
