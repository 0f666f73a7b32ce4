"""Connections to member clusters: from a Cluster and the Secret it names to a client."""

import base64
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from rota.api import errors, meta
from rota.client import client_factory, credentials, kubeconfig
from rota.client.endpoints import Endpoint
from rota.client.verbs import Client, Object, Settings
from rota.federation import kinds
from rota.kit import backoff
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

FIELD_MANAGER: Final = "rota-federation"
#: Marks a namespace that was created for an object in it; a policy for the namespace may take it over.
NEEDED: Final = "federation.rota.dev/needed"
#: How long a member may take to answer.
TIMEOUT_S: Final = 10.0
#: The largest answer that is read from a member; a page of a list has 500 objects.
MOST_BYTES: Final = 32 * 1024 * 1024
#: Backoff of a reconciliation that failed: a server that is available again is noticed within a minute.
RETRIES: Final = backoff.Policy(initial_s=0.1, cap_s=60.0, jitter=backoff.Jitter.NONE)


class NoConnection(ValueError):
    """A Cluster does not say how it is reached."""


async def endpoint_of(client: Client, cluster: Object, *, clock: Clock) -> Endpoint:
    """Where a member is and how to sign in there."""
    reference = (cluster.get("spec") or {}).get("secretRef")
    secret = None
    if reference is not None:
        secret = await client.get(kinds.SECRETS, reference["name"], namespace=reference["namespace"])
    return endpoint(cluster, secret, clock=clock)


def endpoint(cluster: Object, secret: Object | None, *, clock: Clock) -> Endpoint:
    """The endpoint by the Secret of a Cluster: a kubeconfig, or a token as upstream keeps it."""
    spec: Object = cluster.get("spec") or {}
    name = meta.name(cluster)
    if secret is None:
        raise NoConnection(f"cluster {name} names no Secret that exists; join it with rota federation join")
    data = {entry: base64.b64decode(value) for entry, value in (secret.get("data") or {}).items()}
    if "kubeconfig" in data:
        return load(data["kubeconfig"], clock=clock)
    if "token" not in data or not spec.get("apiEndpoint"):
        raise NoConnection(f"the Secret of cluster {name} has neither a kubeconfig nor a token")
    return Endpoint(
        server=spec["apiEndpoint"],
        certificate_authority=data.get("caBundle"),
        insecure_skip_tls_verify=bool(spec.get("insecureSkipTLSVerification")),
        credentials=credentials.bearer(data["token"].decode().strip()),
    )


def load(text: bytes, *, clock: Clock) -> Endpoint:
    """The endpoint of a kubeconfig that holds everything it needs."""
    with tempfile.TemporaryDirectory(prefix="rota-") as folder:
        path = Path(folder, "kubeconfig")
        path.touch(mode=0o600)
        path.write_bytes(text)
        return kubeconfig.load(path, clock=clock)


async def ensure_namespace(client: Client, name: str) -> None:
    """Create a namespace if it is missing."""
    try:
        await client.get(kinds.NAMESPACES, name)
    except errors.NotFound:
        with contextlib.suppress(errors.AlreadyExists):
            metadata = {"name": name, "annotations": {NEEDED: "true"}}
            await client.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


@contextlib.asynccontextmanager
async def connected(client: Client, cluster: Object, *, clock: Clock, rng: Rng) -> AsyncIterator[Client]:
    """A client of a push member."""
    endpoint = await endpoint_of(client, cluster, clock=clock)
    async with connected_to(endpoint, clock=clock, rng=rng) as member:
        yield member


@contextlib.asynccontextmanager
async def connected_to(endpoint: Endpoint, *, clock: Clock, rng: Rng) -> AsyncIterator[Client]:
    """A client of the member at an endpoint."""
    settings = Settings(field_manager=FIELD_MANAGER, user_agent="rota-federation", timeout_s=TIMEOUT_S)
    async with client_factory.to_server(
        endpoint, clock=clock, rng=rng, settings=settings, most_bytes=MOST_BYTES
    ) as member:
        yield member
