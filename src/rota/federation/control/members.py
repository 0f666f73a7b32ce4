"""Ways into member clusters: from a Cluster and the Secret it names to a client."""

import base64
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from rota.api import meta
from rota.client import client_factory, credentials, kubeconfig
from rota.client.endpoints import Endpoint
from rota.client.verbs import Client, Object, Settings
from rota.federation import kinds
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

FIELD_MANAGER: Final = "rota-federation"
#: How long a member may take to answer.
TIMEOUT_S: Final = 10.0


class NoWay(ValueError):
    """A Cluster does not say how it is reached."""


async def endpoint_of(client: Client, cluster: Object, *, clock: Clock) -> Endpoint:
    """Where a member is and how to sign in: by a kubeconfig in its Secret, or by a token as upstream keeps it."""
    spec: Object = cluster.get("spec") or {}
    reference = spec.get("secretRef")
    if reference is None:
        raise NoWay(f"cluster {meta.name(cluster)} names no Secret; join it with rota federation join")
    secret = await client.get(kinds.SECRETS, reference["name"], namespace=reference["namespace"])
    data = {name: base64.b64decode(value) for name, value in (secret.get("data") or {}).items()}
    if "kubeconfig" in data:
        return load(data["kubeconfig"], clock=clock)
    if "token" not in data or not spec.get("apiEndpoint"):
        raise NoWay(f"the Secret of cluster {meta.name(cluster)} has neither a kubeconfig nor a token")
    return Endpoint(
        server=spec["apiEndpoint"],
        certificate_authority=data.get("caBundle"),
        credentials=credentials.bearer(data["token"].decode().strip()),
    )


def load(text: bytes, *, clock: Clock) -> Endpoint:
    """The endpoint of a kubeconfig that holds everything it needs."""
    with tempfile.TemporaryDirectory(prefix="rota-") as folder:
        path = Path(folder, "kubeconfig")
        path.touch(mode=0o600)
        path.write_bytes(text)
        return kubeconfig.load(path, clock=clock)


@contextlib.asynccontextmanager
async def connected(client: Client, cluster: Object, *, clock: Clock, rng: Rng) -> AsyncIterator[Client]:
    """A client of a member."""
    endpoint = await endpoint_of(client, cluster, clock=clock)
    settings = Settings(field_manager=FIELD_MANAGER, user_agent="rota-federation", timeout_s=TIMEOUT_S)
    async with client_factory.to_server(endpoint, clock=clock, rng=rng, settings=settings) as member:
        yield member
