"""Fills Secrets of type `kubernetes.io/service-account-token`, for programs that cannot renew a token.

Such a Secret names its account in an annotation. It gets a token that is bound to the Secret, the CA bundle of the API
server, and the namespace. Deleting the Secret or the account invalidates the token. A Secret whose account does not
exist, or was replaced by another of the same name, is deleted, as upstream does.
"""

import base64
from typing import Final

from rota.api import errors, meta
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object, Selection
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

SECRETS: Final = ("", "v1", "secrets")
ACCOUNTS: Final = ("", "v1", "serviceaccounts")
TYPE: Final = "kubernetes.io/service-account-token"
NAME: Final = "kubernetes.io/service-account.name"
UID: Final = "kubernetes.io/service-account.uid"
#: The longest lifetime that a TokenRequest accepts: 136 years.
_LIFETIME_S: Final = 1 << 32


class AccountSecretController:
    """Fills and deletes the token Secrets of service accounts."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, bundle: str, metrics: Metrics | None = None) -> None:
        """`bundle` is the CA certificates as PEM."""
        self._client: Final = client
        self._bundle: Final = bundle
        self._frame: Final = Reconciler[Key](
            client, "account secrets", self._process, clock=clock, rng=rng, metrics=metrics
        )
        self._secrets: Final = self._frame.follow(SECRETS, self._changed, selection=Selection(fields=f"type={TYPE}"))
        self._accounts: Final = self._frame.follow(ACCOUNTS, self._account_changed, metadata_only=True)

    async def run(self) -> None:
        """Run until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None:
            self._frame.queue.add(key)

    def _account_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        for where, secret in self._secrets.cache.items():
            if where.namespace == key.namespace and _account(secret) == key.name:
                self._frame.queue.add(where)

    async def _process(self, key: Key) -> None:
        secret = self._secrets.cache.get(key.name, key.namespace)
        if secret is None or meta.is_deleting(secret):
            return
        try:
            account = await self._client.get(ACCOUNTS, _account(secret), namespace=key.namespace)
        except errors.NotFound:
            await self._delete(key, secret)
            return
        known = meta.annotations(secret).get(UID)
        if known and known != meta.uid(account):
            await self._delete(key, secret)
            return
        wanted = {"ca.crt": _encoded(self._bundle), "namespace": _encoded(key.namespace)}
        data = secret.get("data") or {}
        if known and data.get("token") and all(data.get(name) == value for name, value in wanted.items()):
            return
        token = data.get("token") if known else None
        data = {**data, **wanted, "token": token or _encoded(await self._token(key, secret, account))}
        metadata = meta.metadata(secret)
        annotations = {**(metadata.get("annotations") or {}), UID: meta.uid(account)}
        try:
            await self._client.update(
                SECRETS, {**secret, "metadata": {**metadata, "annotations": annotations}, "data": data}
            )
        except (errors.NotFound, errors.Conflict):
            return  # the watch reports the new state
        log.info("token written to secret", secret=str(key), account=meta.name(account))

    async def _token(self, key: Key, secret: Object, account: Object) -> str:
        bound = {"kind": "Secret", "apiVersion": "v1", "name": key.name, "uid": meta.uid(secret)}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {"name": meta.name(account), "namespace": key.namespace},
            "spec": {"boundObjectRef": bound, "expirationSeconds": _LIFETIME_S},
        }
        made = await self._client.create(ACCOUNTS, request, name=meta.name(account), subresource="token")
        token: str = made["status"]["token"]
        return token

    async def _delete(self, key: Key, secret: Object) -> None:
        try:
            await self._client.delete(SECRETS, key.name, namespace=key.namespace, uid=meta.uid(secret))
        except (errors.NotFound, errors.Conflict):
            return
        log.info("secret of a deleted service account deleted", secret=str(key), account=_account(secret))


def _account(secret: Object) -> str:
    return meta.annotations(secret).get(NAME, "")


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
