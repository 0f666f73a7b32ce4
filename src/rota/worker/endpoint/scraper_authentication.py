"""Authentication of scrapers: a bearer token whose user may `get` the `nodes/metrics` of this node.

The worker asks its API server, as the kubelet does: a TokenReview for the user, a SubjectAccessReview for the right. A
token opens the pages with metrics and no others. Verdicts are kept for a while, so that a scrape costs no request, and
scrapes go on while no master answers.
"""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from rota.api import errors
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit.clock import Clock

#: The pages that a token may open.
PAGES: Final = frozenset({"/metrics", "/metrics/resource"})
_TOKEN_REVIEWS: Final = ("authentication.k8s.io", "v1", "tokenreviews")
_ACCESS_REVIEWS: Final = ("authorization.k8s.io", "v1", "subjectaccessreviews")
_BEARER: Final = "Bearer "
#: How long verdicts are valid; the kubelet's values.
_ALLOWED_S: Final = 120.0
_REFUSED_S: Final = 30.0
#: How long an earlier permission is still valid while no master answers.
_GRACE_S: Final = 3600.0
#: How many verdicts are kept, and how many reviews run at once: unknown tokens must not flood the masters. So many
#: more wait. Tokens that were valid before have reviews of their own: they do not wait behind unknown ones.
_MOST_VERDICTS: Final = 256
_REVIEWS_AT_ONCE: Final = 2
_MOST_WAITING: Final = 32
_PATIENCE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Verdict:
    code: int
    text: str
    at: float


class ScraperAuthentication:
    """Decides about requests of scrapers."""

    def __init__(self, client: Client, node: str, *, clock: Clock) -> None:
        self._client: Final = client.with_settings(timeout_s=_PATIENCE_S, retry=False)
        self._node: Final = node
        self._clock: Final = clock
        #: By the digest of the token, the most recently used last.
        self._verdicts: Final[OrderedDict[bytes, _Verdict]] = OrderedDict()
        self._reviewing: Final = asyncio.Semaphore(_REVIEWS_AT_ONCE)
        self._renewing: Final = asyncio.Semaphore(_REVIEWS_AT_ONCE)
        self._waiting = 0

    async def refusal(self, request: web.Request) -> web.Response | None:
        """None if the request has a token that opens its page, otherwise the answer to it."""
        given = request.headers.get("Authorization", "")
        if request.method != "GET" or request.path not in PAGES or not given.startswith(_BEARER):
            return web.Response(status=401, text="Unauthorized\n")
        verdict = await self._verdict(given.removeprefix(_BEARER).strip())
        return None if verdict.code == 200 else web.Response(status=verdict.code, text=verdict.text)

    async def _verdict(self, token: str) -> _Verdict:
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        known = self._verdicts.get(digest)
        if known is not None and self._clock.monotonic() - known.at < (_ALLOWED_S if known.code == 200 else _REFUSED_S):
            self._verdicts.move_to_end(digest)
            return known
        was_valid = known is not None and known.code == 200
        if not was_valid and self._waiting >= _MOST_WAITING:
            return _Verdict(503, "too many unknown tokens are being reviewed\n", 0.0)
        self._waiting += not was_valid
        try:
            async with self._renewing if was_valid else self._reviewing:
                made = await self._review(token)
        except (errors.ApiError, TransportError):
            if known is not None and was_valid and self._clock.monotonic() - known.at < _GRACE_S:
                return known
            return _Verdict(503, "no master answers whether this token is valid\n", 0.0)
        finally:
            self._waiting -= not was_valid
        self._keep(digest, made)
        return made

    def _keep(self, digest: bytes, made: _Verdict) -> None:
        """Keep a verdict; if there are too many, refusals are forgotten before permissions."""
        self._verdicts[digest] = made
        self._verdicts.move_to_end(digest)
        while len(self._verdicts) > _MOST_VERDICTS:
            refused = next((one for one, verdict in self._verdicts.items() if verdict.code != 200), None)
            del self._verdicts[refused or next(iter(self._verdicts))]

    async def _review(self, token: str) -> _Verdict:
        now = self._clock.monotonic()
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = (await self._client.create(_TOKEN_REVIEWS, review)).get("status") or {}
        if not status.get("authenticated"):
            return _Verdict(401, "Unauthorized\n", now)
        user = status["user"]
        attributes = {"verb": "get", "version": "v1", "resource": "nodes", "subresource": "metrics", "name": self._node}
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "resourceAttributes": attributes,
        }
        access = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        allowed = ((await self._client.create(_ACCESS_REVIEWS, access)).get("status") or {}).get("allowed")
        name = user.get("username", "")
        return _Verdict(200, "", now) if allowed else _Verdict(403, f"Forbidden (user={name}, nodes/metrics)\n", now)
