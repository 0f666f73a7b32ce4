"""`rota bench`: measure Rota on this machine, beside a reference in the same run."""

import importlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli import options, output
from rota.cli.command_types import Command
from rota.kit import errors

if TYPE_CHECKING:
    from rota.bench import report

#: The benchmarks, in the order of `all`; each is a module of `rota.bench` with a `measure`.
BENCHES = (
    "store",
    "apiserver",
    "decide",
    "queue",
    "schedule",
    "schedulers",
    "batch",
    "tasks",
    "functions",
    "pipeline",
    "extender",
    "simulate",
    "forecast",
    "energy",
    "colocation",
    "federation",
    "kubernetes",
)

_WITH_DATA = ("forecast", "energy")


@click.command(
    "bench",
    cls=Command,
    examples=[
        ("rota bench store --quick", "SQLite, in half a minute"),
        (
            "rota bench store --store postgresql://rota@localhost/rota",
            "another store; its objects stay, its history grows",
        ),
        ("rota bench kubernetes", "compare with stock Kubernetes, built by scripts/build-kubernetes"),
        ("rota bench forecast --data traces", "peak predictors on recorded usage of a folder"),
        (
            "ROTA_BENCH_PEERS=/opt/peers/bin/python rota bench functions",
            "beside dask.distributed and Ray, if that Python has them",
        ),
        ("rota bench all --json", "all benchmarks, one JSON object per line"),
    ],
)
@click.argument("what", type=click.Choice([*BENCHES, "all"]))
@click.option(
    "--store", "store_url", metavar="URL", default="", help="Measure on this store instead of a temporary SQLite file."
)
@click.option("--quick", is_flag=True, help="Take under 30 seconds; less exact.")
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=None,
    help="The folder with recorded usage, for forecast and energy.",
)
@output.json_option
def command(*, what: str, store_url: str, quick: bool, data: Path | None, as_json: bool) -> None:
    """Measure WHAT and print each figure with its ratio to a reference of the same run.

    A ratio above 1 is better than the reference, for times as well as for rates.
    """
    if data is not None and what not in (*_WITH_DATA, "all"):
        raise errors.UserError(f"--data belongs to the benchmarks {' and '.join(_WITH_DATA)}; leave it out for {what}")
    from rota.bench import report  # noqa: PLC0415 - not needed to refuse an option

    for name in BENCHES if what == "all" else [what]:
        try:
            with output.progress(f"measuring {name}"):
                results = _measure(name, store_url, quick, data)
        except errors.UserError as missing:
            if what != "all":
                raise
            click.echo(f"{name} left out: {missing}", err=True)
            continue
        _show(report.Report(bench=name, machine=report.this_machine(), results=results), as_json)


def _measure(name: str, store_url: str, quick: bool, data: Path | None) -> list["report.Result"]:
    # NumPy and the drivers load with the benchmark, not with `rota --help`.
    module: Any = importlib.import_module(f"rota.bench.{name}")
    # On the disk of the data folder: the disk determines how long a durable write takes.
    with tempfile.TemporaryDirectory(dir=options.made_folder(options.data_folder()), prefix=".bench-") as place:
        url = store_url or options.sqlite_url(Path(place) / "store.db")
        extra = {"data": data} if name in _WITH_DATA else {}
        results: list[report.Result] = module.measure(store_url=url, quick=quick, **extra)
    return results


def _show(result: "report.Report", as_json: bool) -> None:
    if as_json:
        import msgspec  # noqa: PLC0415 - as above

        click.echo(msgspec.json.encode(result))
        return
    machine = result.machine
    click.echo(f"{result.bench} on {machine.cores} x {machine.cpu}, {machine.memory_gib} GiB, load {machine.load}")
    output.table(
        ["WHAT", "VALUE", "UNIT", "RATIO", "SPREAD", "TO"],
        [
            [
                row.name,
                _figure(row.value),
                row.unit,
                "" if row.ratio is None else _ratio(row.ratio),
                f"{row.spread:.0%}" if isinstance(row.spread, float) else "",
                f"{row.against}{_verdict(row)}",
            ]
            for row in result.results
        ],
        right=["VALUE", "RATIO", "SPREAD"],
    )


def _verdict(row: "report.Result") -> str:
    """Whether a goal is reached, or why that cannot be said."""
    if row.conclusive is False:
        return f"; too wide a spread or too few rounds ({row.rounds}) to conclude"
    if not isinstance(row.met, bool):
        return ""
    return f"; goal {'reached' if row.met else 'missed'}: {row.goal}"


def _ratio(value: float) -> str:
    """Two significant digits."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
