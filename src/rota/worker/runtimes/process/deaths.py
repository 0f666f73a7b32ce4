"""Detects deaths of processes that belong to the end of their machine. Pure; only the standard library, as in the shim.

A machine that is switched off, or a supervisor that is killed with everything it runs, ends processes in any order. So
the shim may see its children die, and record that, just before it dies itself. Such a child was disrupted and has not
failed.
"""

import signal
from collections.abc import Mapping
from typing import Any, Final

#: Signals of init systems and operators at a shutdown.
_SIGNALS: Final = frozenset({int(signal.SIGTERM), int(signal.SIGKILL), int(signal.SIGHUP)})
#: How often a shim with running children updates its timestamp.
ALIVE_S: Final = 5.0
#: How long before the shim's last timestamp a death may be: the timestamp is up to `ALIVE_S` old, and machines may be
#: slow.
_AROUND_S: Final = 3 * ALIVE_S


def is_of_the_machine(record: Mapping[str, Any]) -> bool:
    """Whether a run died by a signal of a shutdown that the worker did not send."""
    return record.get("signal") in _SIGNALS and not record.get("asked") and not record.get("oom")


def is_lost(record: Mapping[str, Any], *, shim_process: str, predecessor_ended_at: float) -> bool:
    """Whether a run that has ended did so around the end of its shim, which was killed.

    `shim_process` is the present shim; `predecessor_ended_at` is 0 for a predecessor that exited by itself.
    """
    ended_with_it = bool(predecessor_ended_at) and record["finished_at"] >= predecessor_ended_at - _AROUND_S
    return is_of_the_machine(record) and record.get("nursery") != shim_process and ended_with_it
