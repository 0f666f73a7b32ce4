"""Follows TuningProposals and puts their values on top of the scheduler configuration of this process.

Every process that decides by the configuration runs one, so a scheduler, the rebalancer and what-if questions agree.
The values are those of the objects' statuses: a proposal that is rolled back or deleted is out of force at once, and a
process that starts has the values of the others.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from rota.api import errors, meta
from rota.api.meta import Object
from rota.client import paths
from rota.client.informers import shared_decoding
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.plugin_registry.configuration_source import LiveConfiguration
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.tuning import parameters, proposals
from rota.scheduler.tuning.parameters import NotTunableError
from rota.scheduler.tuning.proposals import PROPOSALS

log = logs.get(__name__)

#: Another scheduler's server may get the kind later.
_AGAIN_S: Final = 300.0


def overlaid(base: Loaded, known: Sequence[Object], skipped: Callable[[Object, str], None] | None = None) -> Loaded:
    """A configuration with the values of all proposals in force; one that does not fit any more is skipped."""
    loaded = base
    for one in proposals.in_order(known):
        if not (values := proposals.values(one)):
            continue
        try:
            loaded = parameters.tuned(loaded, proposals.scheduler_name(one), values)
        except (NotTunableError, ConfigurationError) as error:
            if skipped is not None:
                skipped(one, str(error))
    return loaded


class TuningFollower:
    """Keeps one LiveConfiguration up to date."""

    def __init__(self, client: Client, configuration: LiveConfiguration, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._configuration: Final = configuration
        self._clock: Final = clock
        self._informer: Final = Informer[Object](
            Source(client=client, target=PROPOSALS), decode=shared_decoding.shared, clock=clock, rng=rng
        )
        self._informer.add_handler(self._changed)
        self._in_force: list[object] = []

    async def run(self) -> None:
        """Follow until cancelled; while the server does not have the kind, there is nothing to follow."""
        while not await self._is_served():
            await self._clock.sleep(_AGAIN_S)
        await self._informer.run()

    async def _is_served(self) -> bool:
        group, version, plural = PROPOSALS
        try:
            # Stock Kubernetes does not have the kind, and roles there do not name it: discovery is open to everyone.
            if f'"{plural}"'.encode() not in await self._client.request("GET", paths.group_version(group, version)):
                return False
            await self._client.list(PROPOSALS)
        except (errors.NotFound, errors.Forbidden):
            return False
        return True

    def _changed(self, _key: Key, _old: Object | None, _new: Object | None) -> None:
        known = list(self._informer.cache.values())
        in_force: list[object] = [
            (proposals.scheduler_name(one), proposals.values(one))
            for one in proposals.in_order(known)
            if proposals.values(one)
        ]
        if in_force == self._in_force:
            return
        try:
            self._configuration.alter(partial(_altered, known))
        except Exception as error:  # a plugin's constructor may refuse the values; the former ones stay
            log.exception("tuned values are not in force", error=error)
            return
        self._in_force = in_force
        log.warning("tuned values in force", proposals=[meta.name(one) for one in known if proposals.values(one)])


def _altered(known: Sequence[Object], base: Loaded) -> Loaded:
    return overlaid(base, known, _skipped)


def _skipped(proposal: Object, why: str) -> None:
    log.warning("the configuration does not have what a tuning proposal changes", proposal=meta.name(proposal), why=why)
