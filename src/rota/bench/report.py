"""The report of a benchmark: named values, each with a reference measured in the same run.

A machine's speed varies, so an absolute value means little; the ratio to a reference, measured shortly before on the
same machine, is comparable. A ratio above 1 is better than the reference, for times as well as for rates.
"""

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

import rota


class Result(Struct, frozen=True, kw_only=True):
    """One measured value. Without a reference, `against` is empty and `ratio` is None."""

    name: str
    value: float
    unit: str
    against: str = ""
    ratio: float | None = None
    #: What the value has to be, in words, and whether it is; absent where there is no goal.
    goal: str | UnsetType = UNSET
    met: bool | UnsetType = UNSET
    #: For figures of several rounds (`rota.bench.rounds`): the width of the middle half as a part of the median, the
    #: number of rounds, and whether they allow a conclusion.
    spread: float | UnsetType = UNSET
    rounds: int | UnsetType = UNSET
    conclusive: bool | UnsetType = UNSET


class Machine(Struct, frozen=True, kw_only=True):
    """The machine of a measurement."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    python: str
    rota: str
    load: float


class Report(Struct, frozen=True, kw_only=True):
    """One benchmark's results; its JSON form is what ``--json`` prints."""

    bench: str
    machine: Machine
    results: Sequence[Result]


def rate(name: str, value: float, reference: float, *, against: str, unit: str = "1/s") -> Result:
    """A result of which more is better."""
    return Result(name=name, value=value, unit=unit, against=against, ratio=value / reference if reference else None)


def duration(name: str, value: float, reference: float, *, against: str, unit: str = "ms") -> Result:
    """A result of which less is better; value and reference in the same unit."""
    return Result(name=name, value=value, unit=unit, against=against, ratio=reference / value if value else None)


def median(values: Sequence[float]) -> float:
    """The median of several rounds, which a single disturbed round does not change."""
    return statistics.median(values)


def this_machine() -> Machine:
    """The machine that this process runs on."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        memory_gib=round(pages / 2**30, 1),
        system=platform.platform(terse=True),
        python=platform.python_version(),
        rota=rota.__version__,
        load=round(os.getloadavg()[0], 2),
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
