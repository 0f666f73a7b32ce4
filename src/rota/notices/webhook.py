"""The webhook: `POST /notices` with a body that `rota.notices.messages` parses, authenticated by a token.

Every process that receives a notice writes it, whether it leads or not, because the node is the record and repeated
messages are recognized. A sender may therefore repeat a request. The answer reports the result of each notice; 404: no
such node; 503: try again.
"""

import asyncio
import contextlib
import hmac
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from rota.api import errors
from rota.client.transports.transport import TransportError
from rota.kit import diagnostics, logs
from rota.kit.clock import Clock
from rota.kit.diagnostics import Address
from rota.kit.errors import UserError
from rota.kit.metrics import Metrics
from rota.notices import messages
from rota.notices.announcements import Verdict
from rota.notices.announcer import Announcer
from rota.notices.messages import Malformed, Message
from rota.notices.node_lookup import Machines
from rota.spot.node_signals import NodeSignals

log = logs.get(__name__)

PATH: Final = "/notices"
_MOST_BYTES: Final = 256 * 1024
#: The shortest token that is accepted.
_SHORTEST_TOKEN: Final = 16
#: The time limit of a request, against slow senders.
_READ_S: Final = 10.0
_AGAIN_S: Final = "5"
#: Answered with 404: the sender should check what it sends.
_GONE: Final = frozenset({Verdict.UNKNOWN})

_encode: Final = msgspec.json.Encoder().encode


class Token:
    """A secret in a file, which may be replaced at run time."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._known: tuple[int, bytes] = (0, b"")
        self.read()

    def read(self) -> bytes:
        """The secret; UserError if there is no usable one."""
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._known[0]:
                self._known = changed, self._path.read_bytes().strip()
        except OSError as problem:
            raise UserError(f"cannot read {self._path}: {problem.strerror}", "name a file with a token") from None
        secret = self._known[1]
        if len(secret) < _SHORTEST_TOKEN or not secret.isascii():
            raise UserError(
                f"{self._path} holds no token of at least {_SHORTEST_TOKEN} characters", "try 'openssl rand -hex 32'"
            )
        return secret

    def matches(self, authorization: str) -> bool:
        """Whether an Authorization header contains the secret."""
        scheme, _, shown = authorization.partition(" ")
        try:
            secret = self.read()
        except UserError as problem:
            log.error("webhook refuses all clients", problem=problem)
            return False
        return scheme.lower() == "bearer" and hmac.compare_digest(_bytes(shown.strip()), secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Address and token of the webhook."""

    address: Address
    #: Without a token, every sender is accepted.
    token: Token | None
    tls: ssl.SSLContext | None


class Webhook:
    """Handles the requests."""

    def __init__(
        self,
        announcer: Announcer,
        machines: Machines,
        marks: NodeSignals,
        *,
        clock: Clock,
        token: Token | None,
        metrics: Metrics | None = None,
    ) -> None:
        """Without a token, every sender is accepted."""
        self._announcer: Final = announcer
        self._machines: Final = machines
        self._marks: Final = marks
        self._clock: Final = clock
        self._token: Final = token
        self._requests: Final = (metrics or Metrics("notices")).counter(
            "webhook_requests_total", "Requests to the webhook, by the answer's code.", ("code",)
        )

    def application(self) -> web.Application:
        """The HTTP application."""
        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_post(PATH, self._page)
        return app

    async def _page(self, request: web.Request) -> web.Response:
        code, answer = await self._answered(request)
        self._requests.labels(str(code)).inc()
        if code >= 400:
            log.warning("notices refused", code=code, sender=request.remote, problem=answer.get("error", ""))
        headers = {"Retry-After": _AGAIN_S} if code == 503 else {}
        if code == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return web.Response(status=code, body=_encode(answer), content_type="application/json", headers=headers)

    async def _answered(self, request: web.Request) -> tuple[int, dict[str, Any]]:
        if self._token is not None and not self._token.matches(request.headers.get("Authorization", "")):
            return 401, {"error": "show the token: 'Authorization: Bearer TOKEN'"}
        if not self._machines.synced:
            return 503, {"error": "the cluster is not known yet"}
        try:
            async with asyncio.timeout(_READ_S):
                body = await request.read()
            headers = {name.lower(): _bytes(value).decode(errors="replace") for name, value in request.headers.items()}
            found = messages.read(body, headers, marks=self._marks, now=self._clock.now())
        except web.HTTPRequestEntityTooLarge:
            return 413, {"error": f"a request has at most {_MOST_BYTES} bytes"}
        except TimeoutError:
            return 408, {"error": f"a request is sent within {_READ_S:.0f} s"}
        except Malformed as problem:
            return 400, {"error": str(problem)}
        return await self._told(found, request.remote or "")

    async def _told(self, found: Sequence[Message], sender: str) -> tuple[int, dict[str, Any]]:
        answers = await asyncio.gather(*(self._tell(one, sender) for one in found))
        results = [{"machine": str(one.machine), **answer} for one, (_, answer) in zip(found, answers, strict=True)]
        codes = {code for code, _ in answers}
        if codes & {409, 503} or codes == {404}:
            # notices that were written are recognized when the request is repeated
            code = max(codes & {409, 503}, default=404)
            problem = next(answer["error"] for one, answer in answers if one == code)
            return code, {"error": problem, "notices": results}
        return 200, {"notices": results}

    async def _tell(self, message: Message, sender: str) -> tuple[int, dict[str, str]]:
        nodes = self._machines.find(message.machine)
        if len(nodes) > 1:
            return 409, {"error": f"{message.machine} may be any of {', '.join(nodes[:5])}; name the providerID"}
        verdict = Verdict.UNKNOWN
        if nodes:
            try:
                verdict = await self._announcer.announce(nodes[0], message.said, sender=sender)
            except (errors.ApiError, TransportError) as problem:
                log.warning("notice not written yet", node=nodes[0], error=problem)
                return 503, {"error": f"the notice about {message.machine} could not be written; send it again"}
        if verdict in _GONE:
            return 404, {"error": f"no node is the machine {message.machine}", "outcome": verdict.value}
        return 200, {"node": nodes[0], "outcome": verdict.value}


@contextlib.asynccontextmanager
async def serving(webhook: Webhook, hook: Hook) -> AsyncIterator[str]:
    """Serve until the block is left; yields the URL for notices. Port 0 takes a free one."""
    host, port = hook.address
    runner = web.AppRunner(webhook.application(), access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, ssl_context=hook.tls).start()
        except OSError as problem:
            shown = "" if diagnostics.is_loopback(host) else f"{host} "
            message = f"cannot listen on {shown}port {port}: {problem.strerror}"
            raise UserError(message, "choose another with --webhook, or port 0 for a free one") from problem
        shown = f"[{host}]" if ":" in host else host
        yield f"{'http' if hook.tls is None else 'https'}://{shown}:{runner.addresses[0][1]}{PATH}"
    finally:
        await runner.cleanup()


def _bytes(header: str) -> bytes:
    """The bytes of a header: bytes that are not UTF-8 are lone surrogates in its text, which other codecs refuse."""
    return header.encode(errors="surrogateescape")
