"""Who may use the endpoint: whoever shows a certificate of the cluster's authority that is in `system:masters`.

That is the API server, which has done all asking for rights by then. TLS has verified what is shown; whoever shows
nothing hears 401, whoever is somebody else 403. A node's certificate is good for calling the API, not other nodes.
"""

import ssl

from aiohttp import web
from aiohttp.typedefs import Handler

from rota.api import users
from rota.pki import certificates


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let the API server through."""
    secured: ssl.SSLObject | None = request.get_extra_info("ssl_object")
    shown = secured.getpeercert(binary_form=True) if secured is not None else None
    if shown is None:
        return web.Response(status=401, text="Unauthorized\n")
    try:
        subject = certificates.facts(certificates.read_der(shown)).subject
    except ValueError:
        return web.Response(status=401, text="Unauthorized\n")
    if users.MASTERS not in subject.organizations:
        return web.Response(status=403, text=f"Forbidden (user={subject.common_name})\n")
    return await handler(request)
