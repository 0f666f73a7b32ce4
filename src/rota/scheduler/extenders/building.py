"""From the extenders of a configuration to a panel that can be asked."""

import shlex
from collections.abc import Sequence

from rota.kit.backoff import Chance
from rota.kit.clock import Clock
from rota.scheduler.config.wire import Extender as Settings
from rota.scheduler.extenders.contract import Surroundings
from rota.scheduler.extenders.extender import WireExtender
from rota.scheduler.extenders.http import HttpExchange
from rota.scheduler.extenders.panel import Panel
from rota.scheduler.extenders.process import ProcessExchange


def panel(extenders: Sequence[Settings], *, surroundings: Surroundings, clock: Clock, chance: Chance) -> Panel:
    """Build the panel, in the given order (`Configuration.extenders` has it right); nothing is connected or started."""
    return Panel([_extender(each, surroundings=surroundings, clock=clock, chance=chance) for each in extenders])


def _extender(settings: Settings, *, surroundings: Surroundings, clock: Clock, chance: Chance) -> WireExtender:
    if settings.command:
        timeout_s = settings.http_timeout.total_seconds()
        exchange = ProcessExchange(settings.command, timeout_s=timeout_s, clock=clock, chance=chance)
        return WireExtender(settings, shlex.join(settings.command), exchange=exchange, surroundings=surroundings)
    return WireExtender(settings, settings.url_prefix, exchange=HttpExchange(settings), surroundings=surroundings)
