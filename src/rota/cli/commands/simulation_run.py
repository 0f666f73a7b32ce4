"""`rota simulate`: runs an experiment, shows how far it is, and prints its report."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from rota.cli import output
from rota.cli.commands import workloads
from rota.kit.system import SystemClock
from rota.simulator import experiment, html_report, model_options
from rota.simulator import policies as chosen_policies
from rota.simulator import traces as simulated_traces
from rota.simulator.engine import Options
from rota.simulator.experiment import Progress, Report, Watcher
from rota.simulator.loaders import openb as openb_files
from rota.simulator.results import Difference, Summary, mean
from rota.simulator.ties import TieRule
from rota.simulator.traces import FOREVER, Trace


def simulate(
    *,
    openb: Path | None,
    traces: str,
    policies: tuple[str, ...],
    plugins: tuple[Path, ...],
    seeds: int,
    first_seed: int,
    ties: str,
    tune: float,
    until_s: float | None,
    lenient: bool,
    html_file: Path | None,
    write_trace: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Run an experiment and print its report."""
    workload = {
        name: given.pop(name) for name in ("file", "csv_file", "mapping", "azure", "google", "cluster", "nodes")
    }
    models = model_options.models(**given)
    rule = TieRule(ties)
    names = _split(policies) or [chosen_policies.DEFAULT]
    if openb is not None:
        wanted = openb_files.names(openb) if traces == "all" else _split((traces,))
        loaded = [openb_files.load(openb, name, lenient=lenient) for name in wanted]
        runner = experiment.arrivals_runner(ties=rule, tune=tune)
        conditions: dict[str, Any] = {"ties": rule.value, "tune": tune, "mode": "arrivals only"}
    else:
        loaded = [workloads.read(**workload, lenient=lenient)]
        options = Options(models=models, ties=rule, until_s=FOREVER if until_s is None else until_s)
        runner = experiment.engine_runner(options)
        conditions = {"ties": rule.value, "mode": "events", "models": models.document()}
    for trace in loaded:
        _tell_skipped(trace)
    if write_trace is not None:
        simulated_traces.write(loaded[0], write_trace)
        click.echo(f"{len(loaded[0].nodes)} nodes and {len(loaded[0])} pods in {write_trace}")
        return
    report = _watched(loaded, names, plugins, range(first_seed, first_seed + seeds), runner, conditions=conditions)
    if html_file is not None:
        html_file.write_text(html_report.page(report, title=f"Simulation of {loaded[0].name}"), encoding="utf-8")
    show(report, as_json=as_json)
    if html_file is not None and not as_json:
        click.echo(f"\nThe report with plots is in {html_file}")


def _split(values: Sequence[str]) -> list[str]:
    return [name for value in values for name in value.split(",") if name]


def _watched(
    traces: Sequence[Trace],
    names: Sequence[str],
    plugins: Sequence[Path],
    seeds: Sequence[int],
    runner: experiment.Runner,
    *,
    conditions: dict[str, object],
) -> Report:
    chosen = [chosen_policies.named(name, plugins) for name in names]
    with shown() as watch:
        return experiment.run(traces, chosen, seeds, runner, conditions=conditions, watch=watch)


def show(report: Report, *, as_json: bool) -> None:
    """Print a report."""
    if as_json:
        output.document(report.document())
        return
    if report.interrupted:
        part = "the part of the run that was done" if report.partial else "the runs that were done"
        click.echo(f"Interrupted; this is about {part}.")
    click.echo(f"{_told(report.conditions)}\n")
    for trace in dict.fromkeys(each.trace for each in report.summaries):
        _show_trace(trace, [each for each in report.summaries if each.trace == trace])
    compared = report.differences
    if compared:
        click.echo(f"\nDifferences to {compared[0].baseline}, on the same seeds, with 95 % intervals:\n")
        output.table(["TRACE", "POLICY", "FIGURE", "DIFFERENCE", "INTERVAL", ""], map(_difference, compared))


def _show_trace(trace: str, found: Sequence[Summary]) -> None:
    number = len(found[0].seeds)
    click.echo(f"{trace}, {number} seed{'s' if number > 1 else ''}\n")
    heads = ["FIGURE", *(each.policy.upper() for each in found)]
    rows = [
        [name.replace("_", " "), *(f"{mean(each.values(name)):,.2f}" for each in found)] for name in found[0].figures
    ]
    output.table(heads, rows, right=heads[1:])


def _told(conditions: dict[str, Any]) -> str:
    """The rules and models that differ from doing nothing."""
    parts = []
    for name, value in conditions.items():
        if isinstance(value, dict):
            parts += [
                f"{each.replace('_', ' ')} {told}"
                for each, told in value.items()
                if told not in ("none", False, "fixed:0")
            ]
        else:
            parts.append(f"{name} {value}")
    return ", ".join(parts)


def _difference(each: Difference) -> list[str]:
    interval = "one seed" if each.seeds < 2 else f"{each.mean - each.margin:+.2f} .. {each.mean + each.margin:+.2f}"
    name = each.figure.replace("_", " ")
    return [each.trace, each.policy, name, f"{each.mean:+.2f}", interval, "noise" if each.noise else ""]


def _tell_skipped(trace: Trace) -> None:
    if trace.skipped.number:
        output.note(f"{trace.name}: {trace.skipped.number} faulty rows skipped, such as {trace.skipped.examples[0]}")


@contextlib.contextmanager
def shown() -> Iterator[Watcher | None]:
    """Show how far the runs are, with the virtual time and an estimate of the end, on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    clock = SystemClock()
    began = clock.monotonic()
    with output.waiting() as say:

        def watch(progress: Progress) -> None:
            done = (progress.done + progress.part) / max(progress.runs, 1)
            spent = clock.monotonic() - began
            left = f", {spent / done - spent:,.0f} s left" if done > 0.01 else ""
            time = f", virtual time {progress.time_s:,.0f} s" if progress.time_s else ""
            what = f"{progress.trace}, {progress.policy}, seed {progress.seed}"
            say(f"{what}: run {progress.done + 1} of {progress.runs}, {done:.0%}{time}{left}")

        yield watch
