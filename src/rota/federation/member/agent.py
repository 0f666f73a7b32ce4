"""The agent of a pull member: the engine, the observation of the member, its Lease and its own credentials."""

import base64
import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from rota.api import errors, times
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.federation import kinds
from rota.federation.customization import interpreter
from rota.federation.estimation.member_nodes import NodeCapacity
from rota.federation.member import capacity, engine, fence, observation, unschedulable
from rota.federation.member.fence import Fence
from rota.federation.member.observation import Observer, Publisher
from rota.federation.member.reporting import Reporting
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.errors import UserError

log = logs.get(__name__)

CONTROL: Final = "control-plane.kubeconfig"
MEMBER: Final = "member.kubeconfig"
TOKEN: Final = "token"  # noqa: S105 - the name of a file
NAME: Final = "cluster"
#: How long a token of an agent is valid; it is renewed after half of that.
TOKEN_S: Final = 24 * 3600
_TRY_AGAIN_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of an operator."""

    every_s: float = observation.EVERY_S
    threshold_s: float = observation.THRESHOLD_S
    renew_every_s: float = fence.RENEW_EVERY_S
    fence_after_s: float = fence.FENCE_AFTER_S
    unschedulable_after_s: float = unschedulable.AFTER_S


class Agent:
    """Serves one member from the inside."""

    def __init__(
        self,
        control: Client,
        member: Client,
        cluster: str,
        folder: Path,
        *,
        clock: Clock,
        rng: Rng,
        settings: Settings,
    ) -> None:
        self._control: Final = control
        self._member: Final = member
        self._cluster: Final = cluster
        self._folder: Final = folder
        self._clock: Final = clock
        self._rng: Final = rng
        self._settings: Final = settings
        self._nodes: tuple[NodeCapacity, ...] | None = None

    async def run(self) -> None:
        """Work until cancelled."""
        clock, rng, settings = self._clock, self._rng, self._settings
        guard = Fence(
            self._control,
            self._member,
            self._cluster,
            clock=clock,
            renew_every_s=settings.renew_every_s,
            fence_after_s=settings.fence_after_s,
        )
        async with tasks.Supervisor("federation agent", clock=clock, rng=rng) as running:
            running.start("lease", guard.renew)
            running.start("fence", guard.guard)
            running.start("observation", self._observe)
            running.start("capacity", self._measure)
            running.start("reports", self._report)
            running.start("token", self._renew_token)
            running.start("engine", lambda: self._apply(guard))
            await running.wait()

    async def _apply(self, guard: Fence) -> None:
        clock, rng = self._clock, self._rng
        async with interpreter.following(self._control, clock=clock, rng=rng) as rules:
            settings = engine.Settings(
                interpreter=rules, fence=guard, unschedulable_after_s=self._settings.unschedulable_after_s
            )
            await engine.Engine(
                self._control, self._member, self._cluster, clock=clock, rng=rng, settings=settings
            ).run()

    async def _observe(self) -> None:
        publisher = Publisher(self._control, self._cluster, clock=self._clock, threshold_s=self._settings.threshold_s)
        observer = Observer(self._member, self._cluster, clock=self._clock, rng=self._rng, with_nodes=True)
        try:
            while True:
                observed = await observer.observe()
                if observed.nodes is not None:
                    self._nodes = observed.nodes
                try:
                    await publisher.publish(await self._control.get(kinds.CLUSTERS, self._cluster), observed)
                except (errors.ApiError, TransportError, OSError, TimeoutError) as error:
                    log.warning("the status of the cluster is not written", cluster=self._cluster, error=str(error))
                await self._clock.sleep(self._settings.every_s)
        finally:
            await observer.close()

    async def _report(self) -> None:
        """Answer what the control plane asks about nodes and pods."""
        await Reporting(
            self._control,
            self._member,
            self._cluster,
            lambda: self._nodes,
            clock=self._clock,
            rng=self._rng,
            every_s=self._settings.every_s,
        ).run()

    async def _measure(self) -> None:
        """Publish the capacity that CapacitySources name."""
        while True:
            try:
                sources = (await self._control.list(kinds.CAPACITY_SOURCES)).items
                cluster = await self._control.get(kinds.CLUSTERS, self._cluster)
                if sources or capacity.published(cluster):
                    await capacity.publish(self._control, cluster, self._member, sources)
            except (errors.ApiError, TransportError, OSError, TimeoutError) as error:
                log.warning("capacity is not published", cluster=self._cluster, error=str(error))
            await self._clock.sleep(self._settings.every_s)

    async def _renew_token(self) -> None:
        while True:
            try:
                expires = await renew_token(self._control, self._cluster, self._folder)
            except (errors.ApiError, TransportError, OSError, TimeoutError) as error:
                log.warning("the agent's token is not renewed", cluster=self._cluster, error=str(error))
                await self._clock.sleep(_TRY_AGAIN_S)
            else:
                await self._clock.sleep(max(_TRY_AGAIN_S, (expires - self._clock.now()) / 2))


async def renew_token(control: Client, cluster: str, folder: Path) -> float:
    """Replace the token in an agent's folder by a new one; when that expires."""
    status = await request_token(control, cluster, ttl_s=TOKEN_S)
    _write(folder / TOKEN, status["token"].encode())
    return times.parse(status["expirationTimestamp"])


async def request_token(control: Client, cluster: str, *, ttl_s: float) -> dict[str, Any]:
    """The status of a TokenRequest for a cluster's agent: a token and when it expires."""
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(ttl_s)},
    }
    answer = await control.create(
        kinds.SERVICE_ACCOUNTS, asked, namespace=kinds.CLUSTER_NAMESPACE, name=cluster, subresource="token"
    )
    return dict(answer["status"])


def save(folder: Path, cluster: str, *, server: str, authority: bytes | None, member: bytes) -> None:
    """Write an agent's folder, except for its token."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    material = {} if authority is None else {"certificate-authority-data": base64.b64encode(authority).decode()}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "federation", "cluster": {"server": server, **material}}],
        "users": [{"name": cluster, "user": {"tokenFile": TOKEN}}],
        "contexts": [{"name": cluster, "context": {"cluster": "federation", "user": cluster}}],
        "current-context": cluster,
    }
    _write(folder / CONTROL, yaml.safe_dump(config, sort_keys=False).encode())
    _write(folder / MEMBER, member)
    _write(folder / NAME, cluster.encode())


def cluster_in(folder: Path) -> str:
    """The cluster that an agent's folder is for."""
    try:
        return (folder / NAME).read_text().strip()
    except OSError as error:
        raise UserError(
            f"{folder} is no folder of an agent: {error.strerror}", "register the cluster with rota federation register"
        ) from None


def _write(path: Path, content: bytes) -> None:
    """Replace a private file as a whole."""
    new = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    new.replace(path)
