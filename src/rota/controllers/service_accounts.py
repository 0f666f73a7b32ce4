"""Gives every namespace the service account `default` and the ConfigMap with the CA bundle.

The account is created with the namespace, and again when it is deleted. The ConfigMap `kube-root-ca.crt` holds the CA
bundle of the API server; changes by others are reverted. Names are upstream's.
"""

import contextlib
from collections.abc import Callable
from typing import Any, Final

from rota.api import errors, meta
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object, Selection
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

NAMESPACES: Final = ("", "v1", "namespaces")
ACCOUNTS: Final = ("", "v1", "serviceaccounts")
CONFIG_MAPS: Final = ("", "v1", "configmaps")
ACCOUNT: Final = "default"
BUNDLE: Final = "kube-root-ca.crt"
_FILE: Final = "ca.crt"
_ABOUT: Final = {"kubernetes.io/description": "The authorities that vouch for the API server of this cluster."}


class ServiceAccountController:
    """Maintains both objects in every namespace that is not terminating."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        bundle: Callable[[], str] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """`bundle` returns the CA certificates as PEM; without it, namespaces get no ConfigMap."""
        self._client: Final = client
        self._bundle: Final = bundle
        self._frame: Final = Reconciler[str](
            client, "service accounts", self._process, clock=clock, rng=rng, metrics=metrics
        )
        self._namespaces: Final = self._frame.follow(NAMESPACES, self._namespace_changed)
        self._accounts: Final = self._frame.follow(ACCOUNTS, self._content_changed)
        self._maps: Final = self._frame.follow(
            CONFIG_MAPS, self._content_changed, selection=Selection(fields=f"metadata.name={BUNDLE}")
        )

    async def run(self) -> None:
        """Maintain accounts and bundles until cancelled."""
        await self._frame.run()

    def _namespace_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None:
            self._frame.queue.add(key.name)

    def _content_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        self._frame.queue.add(key.namespace)

    async def _process(self, name: str) -> None:
        namespace = self._namespaces.cache.get(name)
        if namespace is None or meta.is_deleting(namespace):
            return
        # A terminating namespace accepts no new objects and needs none.
        with contextlib.suppress(errors.NotFound):
            if self._accounts.cache.get(ACCOUNT, name) is None:
                await self._create(ACCOUNTS, _account(name))
            if self._bundle is not None:
                await self._keep_bundle(name, self._bundle())

    async def _keep_bundle(self, namespace: str, bundle: str) -> None:
        found = self._maps.cache.get(BUNDLE, namespace)
        data = {_FILE: bundle}
        if found is None:
            await self._create(CONFIG_MAPS, _config_map(namespace, data))
        elif found.get("data") != data:
            await self._client.update(CONFIG_MAPS, {**found, "data": data})

    async def _create(self, target: tuple[str, str, str], obj: Object) -> None:
        try:
            await self._client.create(target, obj)
        except errors.AlreadyExists:
            return
        except errors.Forbidden as refusal:
            # A terminating namespace refuses new content.
            if "being terminated" not in str(refusal):
                raise


def _account(namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": namespace}}


def _config_map(namespace: str, data: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": BUNDLE, "namespace": namespace, "annotations": dict(_ABOUT)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
