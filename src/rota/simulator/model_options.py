"""Models as users write them in options: texts in, values out, errors with the remedy. Pure."""

from collections.abc import Sequence

from rota.kit.errors import UserError
from rota.simulator import clusters
from rota.simulator.models import Distribution, Failures, Models, NodePool, SpotNotices, distribution


def models(
    *,
    duration: str | None = None,
    bind_latency: str = "0",
    attempt_time: str = "0",
    grace: str = "0",
    recreate: str | None = None,
    failures: str | None = None,
    spot: str | None = None,
    pools: Sequence[str] = (),
    power: str = "100,300",
) -> Models:
    """All models of a run."""
    idle, busy, off = _power(power)
    return Models(
        duration=_given(duration),
        bind_latency=distribution(bind_latency),
        attempt=distribution(attempt_time),
        grace=distribution(grace),
        recreation=_given(recreate),
        failures=None if failures is None else _failures(failures),
        spot=None if spot is None else _spot(spot),
        pools=tuple(map(_pool, pools)),
        idle_w=idle,
        busy_w=busy,
        empty_is_off=off,
    )


def _given(text: str | None) -> Distribution | None:
    return None if text is None else distribution(text)


def _failures(text: str) -> Failures:
    between, slash, repair = text.partition("/")
    if not slash:
        raise UserError(f'"{text}" says no time until a node is back', "write BETWEEN/REPAIR, as exponential:86400/600")
    return Failures(between=distribution(between), repair=distribution(repair))


def _spot(text: str) -> SpotNotices:
    parts = text.rsplit("/", 3)
    label, equals, value = parts[0].partition("=")
    if len(parts) != 4 or not equals or not label:
        raise UserError(f'"{text}" describes no spot nodes', "write LABEL=VALUE/BETWEEN/NOTICE/REPLACEMENT")
    notice = distribution(parts[2])
    return SpotNotices(
        label=label,
        value=value,
        between=distribution(parts[1]),
        notice_s=notice.parameters[0],
        replacement=distribution(parts[3]),
    )


def _pool(text: str) -> NodePool:
    amounts, *times = text.split("/") if text.count("/") in {0, 2} else (text,)
    name, colon, rest = amounts.partition(":")
    most, cross, shape = rest.partition("x")
    if not colon or not cross or not most.isdecimal():
        raise UserError(
            f'"{text}" describes no pool', "write NAME:MOSTxAMOUNTS, as spare:20xcpu=32,memory=128Gi/120/600"
        )
    allocatable, labels = clusters.amounts(shape)
    boot, idle = (distribution(each).parameters[0] for each in times) if times else (120.0, 600.0)
    return NodePool(
        name=name,
        allocatable=allocatable,
        most=int(most),
        boot_s=boot,
        idle_s=idle,
        labels={"pool": name, **labels},
    )


def _power(text: str) -> tuple[float, float, bool]:
    parts = text.split(",")
    off = parts[-1] == "off"
    try:
        idle, busy = (float(part) for part in (parts[:-1] if off else parts))
    except ValueError:
        idle, busy = -1.0, -1.0
    if not 0 <= idle <= busy:
        raise UserError(f'"{text}" describes no power', "write the watts of an idle and a busy node, as 100,300")
    return idle, busy, off
