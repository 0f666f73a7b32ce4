"""Builds a scheduler that runs as a process of its own (`rota scheduler`), beside any Kubernetes API server.

Apart from `assembly`, so that the process loads only what a scheduler uses: many of them may start at once.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path

from rota.api import errors as api_errors
from rota.client.endpoints import Endpoint
from rota.client.verbs import Client
from rota.component_process import beside, checked, passing_identity
from rota.kit import errors, system
from rota.kit.diagnostics import Address
from rota.scheduler import rights as scheduler_rights
from rota.scheduler.batch_profile.settings import LiveBatchSettings
from rota.scheduler.ingest import watched_kinds
from rota.scheduler.observability import tracing
from rota.scheduler.observability.tracing import Tracer
from rota.scheduler.plugin_registry import configuration_source
from rota.scheduler.plugin_registry.configuration_source import ConfigurationSource, LiveConfiguration
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.service import Scheduler
from rota.scheduler.sharding.instance_objects import InstanceSettings
from rota.scheduler.tuning.tuning_follower import TuningFollower


async def run(
    endpoint: Endpoint,
    source: ConfigurationSource,
    *,
    elect: bool = True,
    shard: InstanceSettings | None = None,
    record: Path | None = None,
    http: Address | None = None,
    trace: bool = False,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Run a scheduler against an API server until a signal stops it; it reloads changed configuration files.

    Decisions are recorded in `record`; metrics, health and debug pages are served at `http`.
    """
    clock = system.SystemClock()
    configuration = LiveConfiguration(source, clock=clock)
    batch = LiveBatchSettings(source.batch, clock=clock)
    loaded = configuration.loaded
    async with (
        beside(endpoint, "scheduler") as (client, supervisor, stop),
        contextlib.AsyncExitStack() as parts,
    ):
        election = loaded.configuration.settings.leader_election
        lease = (election.resource_namespace, election.resource_name) if elect and election.leader_elect else None
        sharding = () if shard is None else scheduler_rights.SHARDING
        kinds = watched_kinds.declared(configuration_source.frameworks(loaded).values())
        await checked(
            client,
            "scheduler",
            (
                *scheduler_rights.needed(
                    None if shard is not None else lease, kinds.values(), batch=source.batch is not None
                ),
                *sharding,
            ),
        )
        if shard is not None:
            await _require_shard_maps(client)
        loop = asyncio.get_running_loop()
        scheduler = _scheduler(
            client, loaded, elect=elect, tracer=tracing.installed() if trace else None, batch=batch, shard=shard
        )
        scheduler.follow(configuration)
        supervisor.start("batch configuration", batch.run)
        loop.add_signal_handler(signal.SIGHUP, configuration.reload)
        supervisor.start("configuration", configuration.run)
        supervisor.start("tuning", TuningFollower(client, configuration, clock=clock, rng=system.rng()).run)
        if record is not None:
            from rota.scheduler.recording import attachment  # noqa: PLC0415 - most schedulers do not record

            supervisor.start("recording", attachment.attach(scheduler, record, clock=clock).run)
        supervisor.start("scheduler", scheduler.run)
        ready(f"Scheduling at {endpoint.server} for {', '.join(loaded.configuration.profiles)}. Ctrl-C stops it.")
        if http is not None:
            from rota.scheduler import debug_pages  # noqa: PLC0415 - as above

            shown = debug_pages.serving(scheduler, client, clock=clock, address=http)
            ready(f"Metrics and debugging at {await parts.enter_async_context(shown)}.")
        await stop.wait()


async def _require_shard_maps(client: Client) -> None:
    """UserError if the API server does not have the kinds by which schedulers share pods."""
    try:
        served = await client.request("GET", "/apis/rota.dev/v1alpha1")
    except api_errors.NotFound:
        served = b""
    if b'"shardmaps"' not in served:
        raise errors.UserError(
            "this API server has no ShardMaps, so schedulers cannot share its pods",
            "leave --shard-of out, give each scheduler a schedulerName of its own, and run rota resolver",
        )


def _scheduler(
    client: Client,
    loaded: Loaded,
    *,
    elect: bool = True,
    tracer: Tracer | None = None,
    batch: LiveBatchSettings | None = None,
    shard: InstanceSettings | None = None,
) -> Scheduler:
    identity = passing_identity()
    clock, rng = system.SystemClock(), system.rng()
    return Scheduler(
        client,
        loaded,
        clock=clock,
        rng=rng,
        identity=identity,
        elect=elect,
        tracer=tracer,
        batch=batch,
        shard=shard,
    )
