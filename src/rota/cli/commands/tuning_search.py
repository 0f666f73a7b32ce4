"""`rota tune`: reads the trace and the configuration, searches, and prints, writes or creates the proposal."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from rota.cli import endpoints, output
from rota.cli.commands import session, simulation_run, workloads
from rota.client.verbs import Client, Object
from rota.kit.errors import UserError
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.plugin_registry import builtin
from rota.scheduler.plugin_registry.configuration_source import ConfigurationSource
from rota.scheduler.tuning.parameters import Parameter
from rota.scheduler.tuning.proposals import PROPOSALS
from rota.simulator import experiment, model_options, policies, tuner
from rota.simulator.engine import Options
from rota.simulator.policies import Policy
from rota.simulator.ties import TieRule
from rota.simulator.traces import Trace
from rota.simulator.tuner import Comparison, Finding, Search


def tune(
    *,
    file: Path,
    goal: str,
    policy: str | None,
    plugins: Sequence[Path],
    profile: str,
    parameters: Sequence[str],
    seeds: int,
    first_seed: int,
    rounds: int,
    keep: float,
    power: str,
    duration: str | None,
    name: str,
    approve: str,
    output_file: Path | None,
    create: bool,
    as_json: bool,
    **server: Any,
) -> None:
    """Search, and propose what was found."""
    if output_file is not None and not os.access(output_file.parent, os.W_OK):
        # A search takes long; its result must not be lost at the end.
        raise UserError(f"cannot write {output_file}", f"create the folder {output_file.parent}, or name another one")
    trace = workloads.read(file=file)
    present = _present(trace, policy, plugins)
    options = Options(models=model_options.models(power=power, duration=duration), ties=TieRule.NAME)
    asked = Search(
        goal=goal,
        scheduler_name=profile,
        parameters=tuple(map(_parameter, parameters)),
        search_seeds=experiment.seeds(seeds, first_seed),
        confirm_seeds=experiment.seeds(seeds, first_seed + seeds),
        rounds=rounds,
        keep=keep,
    )
    with simulation_run.shown() as watch:
        found = tuner.search(
            trace,
            present,
            asked,
            experiment.engine_runner(options),
            arguments=experiment.arguments(trace, first_seed),
            watch=watch,
        )
    proposal = found.proposal(name, profile, approve=approve) if found.is_confirmed else None
    if proposal is not None and output_file is not None:
        _write(proposal, output_file)
    if proposal is not None and create:
        _create(proposal, **server)
    if as_json:
        output.document(proposal)
        return
    _show(found)
    if proposal is not None:
        if output_file is not None:
            click.echo(f"\nThe proposal is in {output_file}")
        if create:
            click.echo(f"\ntuningproposal.rota.dev/{name} created")


def _present(trace: Trace, policy: str | None, plugins: Sequence[Path]) -> Policy:
    if policy is not None or trace.configuration is None:
        return policies.named(policy or policies.DEFAULT, plugins)
    registry = ConfigurationSource(None, tuple(plugins)).registry() if plugins else builtin.registry()
    made = Policy(name="recorded", document=trace.configuration, registry=registry)
    try:
        made.load(experiment.arguments(trace, experiment.FIRST_SEED))
    except ConfigurationError as error:
        raise UserError(
            f"{trace.name}: its configuration cannot be used here: {error}", "give one with --policy"
        ) from error
    return made


def _parameter(text: str) -> Parameter:
    plugin, _, argument = text.partition(".")
    return Parameter(plugin, argument)


def _write(proposal: dict[str, Any], file: Path) -> None:
    try:
        file.write_text(yaml.safe_dump(proposal, sort_keys=False), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error


def _create(proposal: dict[str, Any], **server: Any) -> None:
    async def write(client: Client) -> Object:
        return await client.create(PROPOSALS, proposal)

    session.at(endpoints.nearest(**server), write)


def _show(found: Finding) -> None:
    if not found.changes:
        click.echo(f"No change makes {found.goal} better outside noise ({found.runs} runs); nothing to propose.")
        return
    rows = [[str(each), f"{before:g}", f"{after:g}"] for each, (before, after) in found.changes.items()]
    output.table(["PARAMETER", "PRESENT", "PROPOSED"], rows, right=["PRESENT", "PROPOSED"])
    click.echo(f"\nOn {found.seeds} seeds that the search did not use, with 95 % intervals:\n")
    heads = ["FIGURE", "PRESENT", "PROPOSED", "DIFFERENCE", "INTERVAL", ""]
    # What is the same in all runs says nothing; --json has it.
    shown = [each for each in found.comparisons if each.figure == found.goal or each.difference or each.high]
    output.table(heads, map(_row, shown), right=heads[1:4])
    if not found.is_confirmed:
        click.echo(f"\nOn these seeds {found.goal} is not better outside noise; nothing to propose.")
    elif found.worse:
        click.echo(f"\nWorse: {', '.join(found.worse)}. Evidence alone will not approve it.")


def _row(each: Comparison) -> list[str]:
    return [
        each.figure.replace("_", " "),
        f"{each.before:,.2f}",
        f"{each.after:,.2f}",
        f"{each.difference:+.2f}",
        f"{each.low:+.2f} .. {each.high:+.2f}",
        each.verdict,
    ]
