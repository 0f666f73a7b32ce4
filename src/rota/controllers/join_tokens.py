"""Deletes expired join tokens. The API server rejects them anyway; this keeps the list short."""

import base64
from typing import Final

from rota.api import errors, meta, times
from rota.client import join_tokens
from rota.client.informers.cache import Key
from rota.client.join_tokens import SECRETS
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object, Selection
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

_TOKENS: Final = Selection(fields=f"type={join_tokens.TYPE}")


class JoinTokenController:
    """Deletes the Secrets of expired join tokens."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client, "join tokens", self._process, clock=clock, rng=rng, workers=1, metrics=metrics
        )
        self._secrets: Final = self._frame.follow(
            SECRETS, self._changed, namespace=join_tokens.NAMESPACE, selection=_TOKENS
        )

    async def run(self) -> None:
        """Run until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None:
            self._frame.queue.add(key)

    async def _process(self, key: Key) -> float | None:
        secret = self._secrets.cache.get(key.name, key.namespace)
        ends = None if secret is None else _expiration(secret)
        if secret is None or ends is None or meta.is_deleting(secret):
            return None
        left_s = ends - self._clock.now()
        if left_s > 0:
            return left_s
        try:
            await self._client.delete(SECRETS, key.name, namespace=key.namespace, uid=meta.uid(secret))
        except (errors.NotFound, errors.Conflict):
            return None
        log.info("expired join token deleted", secret=str(key))
        return None


def _expiration(secret: Object) -> float | None:
    """When a token expires; None if it does not, or its expiration cannot be parsed."""
    text = base64.b64decode((secret.get("data") or {}).get("expiration") or "").decode(errors="replace")
    try:
        return times.parse(text) if text else None
    except times.TimeError:
        return None
