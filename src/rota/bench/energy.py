"""Benchmark of energy against service level: CloudSim's power study on PlanetLab, by the published policy and by ours.

`--data` names the folder with `planetlab/cpu.csv.xz`. The reference is LR-MMT under the same rules in the same run;
what CloudSim itself gave is in the documentation. The settings of
our policy were chosen on the first day; the last day tests them.
"""

from pathlib import Path

from rota.bench.forecast import planetlab_days
from rota.bench.report import Result, duration
from rota.forecast.arrays import Integers
from rota.kit.errors import UserError
from rota.simulator import power_study
from rota.simulator.power_study import ByForecast, Hosts, Outcome

REFERENCE = "LR-MMT"


def measure(*, store_url: str = "", quick: bool = False, data: Path | None = None) -> list[Result]:
    """Run the study; uses no store."""
    if data is None:
        raise UserError("the study needs recorded usage", "name the folder that has planetlab/cpu.csv.xz by --data")
    found: list[Result] = []
    days = dict(enumerate(planetlab_days(data / "planetlab" / "cpu.csv.xz")))
    for number in sorted({0, 0 if quick else max(days)}):
        day = days[number]
        usage = day[:200] if quick else day
        hosts = 200 if quick else 800
        published = power_study.run(usage, power_study.local_regression, hosts=hosts)
        name = f"day {number + 1} ({len(usage)} machines)"
        found += _figures(f"{name}, no migration", power_study.run(usage, _stay, hosts=hosts), published)
        found += _figures(f"{name}, {REFERENCE}", published, published)
        found += _figures(f"{name}, forecast", power_study.run(usage, ByForecast(), hosts=hosts), published)
    return found


def _stay(made: Hosts, step: int) -> Integers:
    return made.host_of


def _figures(name: str, outcome: Outcome, base: Outcome) -> list[Result]:
    return [
        duration(f"{name}: energy", outcome.energy_kwh, base.energy_kwh, against=REFERENCE, unit="kWh"),
        duration(f"{name}: migrations", outcome.migrations, base.migrations, against=REFERENCE, unit=""),
        Result(name=f"{name}: overload", value=100 * outcome.slatah, unit="% of time"),
        Result(name=f"{name}: degradation", value=100 * outcome.pdm, unit="%"),
        duration(f"{name}: energy x violation", outcome.esv * 1e3, base.esv * 1e3, against=REFERENCE, unit="1e-3 kWh"),
    ]
