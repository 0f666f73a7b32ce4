"""Builds the extender chain of a configuration."""

import shlex
from collections.abc import Sequence

from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.scheduler.config.wire import Extender as Settings
from rota.scheduler.extenders.chain import ExtenderChain
from rota.scheduler.extenders.extender import WireExtender
from rota.scheduler.extenders.extender_interface import ClusterReader
from rota.scheduler.extenders.http import HttpExchange
from rota.scheduler.extenders.process import ProcessExchange


def extender_chain(
    extenders: Sequence[Settings], *, cluster_reader: ClusterReader, clock: Clock, rng: Rng
) -> ExtenderChain:
    """Build the chain in the given order (that of `Configuration.extenders`); nothing is connected or started."""
    return ExtenderChain([_extender(each, cluster_reader=cluster_reader, clock=clock, rng=rng) for each in extenders])


def _extender(settings: Settings, *, cluster_reader: ClusterReader, clock: Clock, rng: Rng) -> WireExtender:
    if settings.command:
        timeout_s = settings.http_timeout.total_seconds()
        exchange = ProcessExchange(settings.command, timeout_s=timeout_s, clock=clock, rng=rng)
        return WireExtender(settings, shlex.join(settings.command), exchange=exchange, cluster_reader=cluster_reader)
    return WireExtender(settings, settings.url_prefix, exchange=HttpExchange(settings), cluster_reader=cluster_reader)
