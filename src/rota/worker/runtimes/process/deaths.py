"""Which deaths of processes may be those of their machine. Pure; only the standard library, as in all of the nursery.

A machine that is switched off, or a supervisor that is killed with all that it runs, ends processes in any order. So
the nursery may see its children die, and write that down, a moment before it dies itself. Such a child has not failed.
"""

import signal
from collections.abc import Mapping
from typing import Any, Final

#: What init systems and people who switch machines off send.
_SIGNALS: Final = frozenset({int(signal.SIGTERM), int(signal.SIGKILL), int(signal.SIGHUP)})
#: How often a nursery that looks after something says that it lives.
ALIVE_S: Final = 5.0
#: How long before the nursery's last sign of life a death may be: the sign is late by `ALIVE_S`, and machines are slow.
_AROUND_S: Final = 3 * ALIVE_S


def is_of_the_machine(record: Mapping[str, Any]) -> bool:
    """Whether a run died by a signal that a machine's end sends, and that the worker did not."""
    return record.get("signal") in _SIGNALS and not record.get("asked") and not record.get("oom")


def is_lost(record: Mapping[str, Any], *, shim_process: str, predecessor_ended_at: float) -> bool:
    """Whether a run that has ended did so around the end of its nursery, which was killed.

    `nursery` is the one that asks; 0 for a predecessor that ended by itself.
    """
    ended_with_it = bool(predecessor_ended_at) and record["finished_at"] >= predecessor_ended_at - _AROUND_S
    return is_of_the_machine(record) and record.get("nursery") != shim_process and ended_with_it
