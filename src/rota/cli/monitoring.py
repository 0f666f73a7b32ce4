"""`rota monitoring`: what Prometheus, Alertmanager and Grafana need for a cluster."""

from pathlib import Path
from typing import Any

import click

from rota.cli import endpoints, options, output
from rota.cli.command_types import Command, CommandGroup


@click.group(
    "monitoring",
    cls=CommandGroup,
    examples=[
        ("rota monitoring setup ./prometheus", "everything that Prometheus needs for this cluster, in a folder"),
        ("rota monitoring rules > rules.yaml", "only the rules and alerts"),
        ("rota monitoring dashboards ./dashboards", "only the dashboards"),
    ],
)
def command() -> None:
    """Print the rules, alerts, dashboards and settings with which Prometheus, Alertmanager and Grafana watch a cluster.

    Only `setup` needs a running cluster. Each alert has a page in docs/runbooks that says what to do.
    """


_runbooks = click.option(
    "--runbooks", metavar="URL", default="docs/runbooks", show_default=True, help="Where the runbook pages are."
)


@command.command(
    "rules",
    cls=Command,
    examples=[
        ("rota monitoring rules > rules.yaml", "a rule file of Prometheus"),
        ("rota monitoring rules --operator | kubectl apply -f -", "for the Prometheus operator"),
        ("rota monitoring rules --rehearse 5s > rules.yaml", "alerts that fire after seconds, to rehearse them"),
    ],
)
@_runbooks
@click.option("--operator", is_flag=True, help="Print a PrometheusRule for the Prometheus operator.")
@click.option(
    "--rehearse",
    type=options.Duration(),
    default=None,
    help="Let alerts fire after this time, if they usually wait longer.",
)
@output.json_option
def rules(*, runbooks: str, operator: bool, rehearse: float | None, as_json: bool) -> None:
    """Print the recording rules and the alerts."""
    from rota.monitoring import rule_files  # noqa: PLC0415 - not needed to refuse an option

    document = rule_files.rules(runbooks=runbooks, longest_s=None if rehearse is None else max(1, round(rehearse)))
    _print(rule_files.prometheus_rule("rota", document) if operator else document, as_json=as_json)


@command.command(
    "dashboards",
    cls=Command,
    examples=[("rota monitoring dashboards /var/lib/grafana/dashboards", "a file for each dashboard")],
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def dashboards(*, folder: Path) -> None:
    """Write the Grafana dashboards to FOLDER, one file each."""
    from rota.cli.commands import monitoring_setup  # noqa: PLC0415

    for file in monitoring_setup.write_dashboards(folder):
        click.echo(str(file))


@command.command(
    "alertmanager",
    cls=Command,
    examples=[("rota monitoring alertmanager >> alertmanager.yml", "add the inhibitions to a configuration")],
)
@output.json_option
def alertmanager(*, as_json: bool) -> None:
    """Print the inhibitions of Alertmanager: alerts that follow from others are held back."""
    from rota.monitoring import rule_files  # noqa: PLC0415

    _print({"inhibit_rules": rule_files.inhibitions()}, as_json=as_json)


@command.command(
    "account",
    cls=Command,
    examples=[
        ("rota monitoring account | rota submit -", "create the account"),
        ("kubectl create token prometheus -n kube-system --duration 8760h > token", "its token"),
    ],
)
@output.json_option
def account(*, as_json: bool) -> None:
    """Print the account of Prometheus: a ServiceAccount that may list nodes and read metrics, and nothing else."""
    from rota.monitoring import scraping  # noqa: PLC0415

    if as_json:
        output.document({"apiVersion": "v1", "kind": "List", "items": list(scraping.RIGHTS)})
        return
    for number, one in enumerate(scraping.RIGHTS):
        if number:
            click.echo("---")
        _print(one, as_json=False)


@command.command(
    "setup",
    cls=Command,
    examples=[
        ("rota monitoring setup ./prometheus", "the cluster of $KUBECONFIG, or of `rota up` on this machine"),
        ("prometheus --config.file=./prometheus/prometheus.yml", "then start Prometheus"),
        (
            "rota monitoring setup ./prometheus --discovery file --follow",
            "for Debian's Prometheus; it runs until Ctrl-C",
        ),
    ],
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@_runbooks
@click.option(
    "--alertmanager", "alertmanagers", multiple=True, metavar="HOST:PORT", help="The address of Alertmanager."
)
@click.option("--backup", "backups", multiple=True, metavar="HOST:PORT", help="The address of a `rota backup --http`.")
@click.option(
    "--ttl",
    type=options.Duration(),
    default="365d",
    show_default=True,
    help="How long the token is valid; repeat the command before it expires.",
)
@click.option(
    "--interval", type=click.IntRange(min=1), default=15, show_default=True, help="How often to read, in seconds."
)
@click.option(
    "--discovery",
    type=click.Choice(["kubernetes", "file"]),
    default="kubernetes",
    show_default=True,
    help="How Prometheus finds workers: by the API, or by the file workers.json, for builds that cannot use the API.",
)
@click.option("--follow", is_flag=True, help="With --discovery file: keep workers.json up to date until Ctrl-C.")
@output.json_option
@endpoints.nearest_options
def setup(**given: Any) -> None:
    """Create the account of Prometheus in the cluster, and write its configuration to FOLDER.

    FOLDER gets prometheus.yml, rules.yaml, the dashboards, the cluster's CA and the token of the account, which only
    you can read. Files of an earlier setup are replaced.
    """
    from rota.cli.commands import monitoring_setup  # noqa: PLC0415 - not needed to refuse an option

    monitoring_setup.write(**given)


def _print(document: dict[str, Any], *, as_json: bool) -> None:
    import yaml  # noqa: PLC0415

    if as_json:
        output.document(document)
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120), nl=False)
