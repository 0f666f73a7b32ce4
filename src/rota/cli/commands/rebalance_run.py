"""`rota rebalance`: plans on a snapshot of the cluster, prints the plan, and evicts pods."""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from rota.cli import endpoints, output
from rota.cli.commands import cluster_files, session
from rota.cli.scheduler_options import SchedulerFiles
from rota.client.verbs import Client
from rota.kit import errors, system
from rota.scheduler.plugin_registry.configuration_source import LiveConfiguration, LiveFrameworks
from rota.scheduler.rebalancing import cluster_view, planner
from rota.scheduler.rebalancing.rebalance_plan import USUAL, Move, Plan, Settings, SettingsError, Strategy
from rota.scheduler.rebalancing.rebalancer import Outcome, Rebalancer
from rota.scheduler.snapshot import scenarios

_BAR: Final = 20
#: The number of nodes that are printed: those that change most.
_NODES: Final = 20


def rebalance(
    *,
    dry_run: bool,
    clusters: tuple[Path, ...],
    yes: bool,
    every: float | None,
    measure: str,
    scheduler_files: SchedulerFiles,
    as_json: bool,
    kubeconfig_file: Path | None,
    context: str,
    server: str | None,
    **chosen: Any,
) -> None:
    """Plan, print, and execute the plan unless it is a dry run."""
    if conflict := _conflict(dry_run=dry_run, yes=yes, every=every, offline=bool(clusters), measure=measure):
        raise click.UsageError(conflict)
    settings = _settings(by_usage=measure == "usage", **chosen)
    configuration = LiveConfiguration(scheduler_files.source(), clock=system.SystemClock())
    if clusters:
        plan = _planned(clusters, configuration, settings)
        output.document(_document(plan, [])) if as_json else _show(plan)
        return
    endpoint = endpoints.nearest(kubeconfig_file=kubeconfig_file, context=context, server=server)

    def rebalancer(client: Client) -> Rebalancer:
        clock, rng = system.SystemClock(), system.rng()
        return Rebalancer(client, LiveFrameworks(configuration), clock=clock, rng=rng)

    async def once(client: Client) -> Plan:
        return await rebalancer(client).plan(settings)

    async def carried_out(client: Client) -> list[Outcome]:
        return [one async for one in rebalancer(client).carry_out(plan.moves)]

    async def again_and_again(client: Client) -> None:
        assert every is not None
        await rebalancer(client).run(settings, every_s=every)

    if every is not None:
        click.echo(f"Rebalancing {endpoint.server} every {every:g} s. Ctrl-C stops it.")
        session.at(endpoint, again_and_again)
        return
    plan = session.at(endpoint, once)
    outcomes: list[Outcome] = []
    if not as_json:
        _show(plan)
    if plan.moves and not dry_run:
        if not yes:
            _confirm(len(plan.moves))
        outcomes = session.at(endpoint, carried_out)
    if as_json:
        output.document(_document(plan, outcomes))
    else:
        _tell(outcomes)


def _conflict(*, dry_run: bool, yes: bool, every: float | None, offline: bool, measure: str) -> str:
    """Why options do not go together; empty if they do."""
    if dry_run and every is not None:
        return "--dry-run shows one plan; leave out --every"
    if every is not None and not yes:
        return "--every evicts pods unasked; say --yes"
    if offline and not dry_run:
        return "--cluster plans for a file, where nothing can be evicted; say --dry-run"
    if offline and measure == "usage":
        return "--cluster reads no usage; leave out --by usage"
    return ""


def _planned(clusters: tuple[Path, ...], configuration: LiveConfiguration, settings: Settings) -> Plan:
    """The plan for a cluster that was written to files."""
    frameworks = dict(LiveFrameworks(configuration))
    documents = [
        one for _, one in scenarios.flattened([one for file in clusters for one in cluster_files.objects(file)])
    ]
    now = system.SystemClock().now()
    snapshot, facts = cluster_view.of_documents(documents, frameworks.values(), now=now)
    return planner.plan(snapshot.cluster, frameworks, facts, settings=settings, usage=None, waiting=snapshot.waiting)


def _settings(
    *,
    strategies: tuple[str, ...],
    empty_below: float,
    full_above: float,
    most: int,
    most_per_node: int,
    most_per_namespace: int,
    most_per_hour: int,
    local_storage: bool,
    jobs: bool,
    by_usage: bool,
) -> Settings:
    try:
        return Settings(
            strategies=tuple(map(Strategy, strategies)) or USUAL,
            empty_below=empty_below / 100,
            full_above=full_above / 100,
            most_at_once=most,
            most_per_node=most_per_node,
            most_per_namespace=most_per_namespace,
            most_per_hour=most_per_hour,
            local_storage=local_storage,
            jobs=jobs,
            by_usage=by_usage,
        )
    except SettingsError as problem:
        raise click.UsageError(str(problem)) from None


def _confirm(count: int) -> None:
    if not sys.stdin.isatty():
        raise errors.UserError(f"{count} pods would be evicted", "say --yes, or --dry-run to see them only")
    click.confirm(f"Evict {count} pods?", abort=True)


def _show(plan: Plan) -> None:
    before, after = plan.before, plan.after
    if not plan.moves:
        click.echo("Nothing should move.")
    else:
        rows = [
            (f"{move.namespace}/{move.name}", move.source, move.target, move.strategy.value, _better(move), move.why)
            for move in plan.moves
        ]
        output.table(["POD", "FROM", "TO", "DRIFT", "SCORE", "WHY"], rows)
    if plan.stays:
        click.echo("\nThese stay:")
        output.table(["POD", "WHY"], sorted(plan.stays.items()))
    if plan.moves:
        click.echo()
        names = sorted(before.shares, key=lambda name: (-abs(after.shares[name] - before.shares[name]), name))
        output.table(
            ["NODE", "BEFORE", "", "AFTER", ""],
            [
                (
                    name,
                    f"{before.shares[name]:4.0%}",
                    _bar(before.shares[name]),
                    f"{after.shares[name]:4.0%}",
                    _bar(after.shares[name]),
                )
                for name in sorted(names[:_NODES])
            ],
        )
        changes = (
            ("misplaced pods", before.violations, after.violations),
            ("duplicates", before.duplicates, after.duplicates),
            ("nodes in use", before.nodes_in_use, after.nodes_in_use),
            ("unevenness", round(before.unevenness, 3), round(after.unevenness, 3)),
        )
        click.echo()
        click.echo(", ".join(f"{name} {old} -> {new}" for name, old, new in changes if old != new) + ".")


def _better(move: Move) -> str:
    return f"{'-' if move.score_before is None else move.score_before} -> {move.score_after}"


def _bar(share: float) -> str:
    filled = round(min(1.0, share) * _BAR)
    return "█" * filled + "·" * (_BAR - filled)


def _tell(outcomes: list[Outcome]) -> None:
    if not outcomes:
        return
    refused = [one for one in outcomes if one.refusal]
    click.echo(f"\n{len(outcomes) - len(refused)} pods were evicted and will be placed again.")
    for one in refused:
        click.echo(f"{one.move.namespace}/{one.move.name} stays: {one.refusal}")


def _document(plan: Plan, outcomes: list[Outcome]) -> Mapping[str, Any]:
    refusals = {one.move.uid: one.refusal for one in outcomes}
    moves = [
        {
            **asdict(move),
            "strategy": move.strategy.value,
            **({"evicted": not refusals[move.uid], "refusal": refusals[move.uid]} if move.uid in refusals else {}),
        }
        for move in plan.moves
    ]
    return {"moves": moves, "stays": plan.stays, "before": asdict(plan.before), "after": asdict(plan.after)}
