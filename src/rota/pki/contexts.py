"""TLS contexts: the own certificate, which can be replaced while in use, and the trusted authorities."""

import ssl
import tempfile
from pathlib import Path
from typing import Final

from rota.pki.certificates import Identity

#: OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which the ssl module has no name for.
_NO_CHECK_TIME: Final = 0x200000


def server(identity: Identity, *, client_authorities: bytes, check_times: bool = True) -> ssl.SSLContext:
    """For a listener. A client certificate is optional; if present, one of these authorities (PEM) must have signed it.

    Without `check_times`, the listener must check with every request that the certificate is valid now. It can then
    report an expired certificate in a response; a failed handshake only closes the connection.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # HTTP/2 is not supported, and clients try it unless ALPN says otherwise.
    context.set_alpn_protocols(["http/1.1"])
    context.verify_mode = ssl.CERT_OPTIONAL
    if not check_times:
        context.verify_flags = ssl.VerifyFlags(context.verify_flags | _NO_CHECK_TIME)
    context.load_verify_locations(cadata=client_authorities.decode())
    use(context, identity)
    return context


def client(identity: Identity, *, server_authorities: bytes) -> ssl.SSLContext:
    """For connections to servers with a certificate of these authorities (PEM); presents this client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=server_authorities.decode())
    use(context, identity)
    return context


def use(context: ssl.SSLContext, identity: Identity) -> None:
    """Present this certificate from the next handshake on; established connections are not affected."""
    # The ssl module reads files only; this one is private and removed at once.
    with tempfile.TemporaryDirectory(prefix="rota-") as folder:
        path = Path(folder, "identity.pem")
        path.touch(mode=0o600)
        path.write_bytes(identity.certificate + b"\n" + identity.key)
        context.load_cert_chain(path)
