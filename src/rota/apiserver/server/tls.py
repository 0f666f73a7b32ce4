"""Serves the application behind TLS, with a certificate that is issued at the start and renewed while the server
runs.
"""

import contextlib
import socket
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Final

from rota.apiserver.server import http_server
from rota.apiserver.server.http_server import Closable, Served
from rota.kit.clock import Clock
from rota.kit.tasks import Supervisor
from rota.pki import contexts
from rota.pki.authorities import DAY_S, Authority, Purpose
from rota.pki.certificates import Identity, Names, Subject
from rota.pki.renewal import Renewal

LIFETIME_S: Final = 90 * DAY_S
#: The names of the API server in pods.
_CLUSTER_NAMES: Final = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@contextlib.asynccontextmanager
async def serve(
    app: Closable,
    authority: Authority,
    *,
    beside: Supervisor,
    clock: Clock,
    host: str = "127.0.0.1",
    port: int = 0,
    known_as: Iterable[str] = (),
) -> AsyncIterator[Served]:
    """Serve until the block is left. The same authority issues the client certificates.

    `known_as` are further names and addresses by which clients reach this server. Renewal runs in `beside`.
    """
    names = Names.of((host, "localhost", "127.0.0.1", "::1", socket.gethostname(), *_CLUSTER_NAMES, *known_as))

    def issue() -> Identity:
        subject = Subject(common_name="rota-apiserver")
        made = authority.issue(subject, purpose=Purpose.SERVER, now=clock.now(), lifetime_s=LIFETIME_S, names=names)
        # with its root, so that a joining node that knows the root's hash finds it (see `pki.pinning`)
        return replace(made, certificate=made.certificate + authority.signing_pem)

    first = issue()
    # `authentication.certificates` checks the times with every request, and answers 401 with the reason
    context = contexts.server(first, client_authorities=authority.certificate_pem, check_times=False)
    renewal = Renewal("API server", first, issue=issue, install=lambda fresh: contexts.use(context, fresh), clock=clock)
    async with http_server.serve(app, host=host, port=port, ssl=context) as served:
        beside.start("server certificate", renewal.run)
        yield served
