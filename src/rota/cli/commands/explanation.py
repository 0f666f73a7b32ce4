"""`rota explain`: prints the explanation of the cluster's scheduler, or computes it from a read of the cluster."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from rota.cli import endpoints, output
from rota.cli.commands import session as asking_server
from rota.cli.scheduler_options import SchedulerFiles
from rota.client import client_factory
from rota.client.endpoints import Endpoint
from rota.kit import errors, logs, system
from rota.scheduler.config import documents
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.explanation import analysis, explain_client
from rota.scheduler.hints import explanation_report
from rota.scheduler.hints.explanation_report import Change, Eviction, Explanation, Node, Victim
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.plugin_registry.third_party import Loaded

_ALL: Final = 1 << 31
_COLOURS: Final = {"Schedulable": "green", "Unschedulable": "red", "Held": "yellow", "Error": "red"}


def explain(
    *,
    name: str,
    manifest: Path | None,
    namespace: str,
    node: str,
    all_nodes: bool,
    scheduler_files: SchedulerFiles,
    form: str,
    **server: Any,
) -> None:
    """Explain a pod by name, or from a manifest."""
    endpoint = endpoints.nearest(**server)
    question = _Question(
        endpoint,
        namespace=namespace or endpoint.namespace,
        node=node,
        most=_ALL if all_nodes else analysis.MOST_NODES,
        loaded=scheduler_files.source().load() if scheduler_files else None,
    )
    work = question.about_manifest(manifest) if manifest is not None else question.about_pod(name)
    explanation = asking_server.run(question.answered(work))
    if form == "json":
        output.document(explanation_report.to_wire(explanation))
    else:
        _show(explanation)


def _read(file: Path) -> bytes:
    return sys.stdin.buffer.read() if file == Path("-") else file.read_bytes()


class _Question:
    """A request for an explanation."""

    def __init__(self, endpoint: Endpoint, *, namespace: str, node: str, most: int, loaded: Loaded | None) -> None:
        self._endpoint = endpoint
        self._namespace = namespace
        self._node = node
        self._most = most
        self._loaded = loaded

    async def answered(self, work: Any) -> Explanation:
        """Wait for the answer; errors become a `UserError`."""
        with asking_server.telling(self._endpoint):
            found: Explanation = await work
        return found

    async def about_pod(self, name: str) -> Explanation:
        """Explain a pod of the cluster."""
        clock, rng = system.SystemClock(), system.rng()
        async with client_factory.to_server(self._endpoint, clock=clock, rng=rng) as client:
            asked = {"namespace": self._namespace, "node": self._node}
            # The scheduler limits the number of nodes that it explains.
            if self._loaded is None and self._most <= analysis.MOST_NODES:
                found = await explain_client.of_server(client, name, **asked, most=self._most)
                if found is not None:
                    return found
            return await self._asker().pod(client, name, **asked, most=self._most)

    async def about_manifest(self, file: Path) -> Explanation:
        """Explain a pod that was not submitted."""
        document = self._manifest(file)
        clock, rng = system.SystemClock(), system.rng()
        async with client_factory.to_server(self._endpoint, clock=clock, rng=rng) as client:
            return await self._asker().manifest(client, document, path=str(file), node=self._node, most=self._most)

    def _manifest(self, file: Path) -> dict[str, Any]:
        try:
            found = documents.parse_all(_read(file))
        except ConfigurationError as error:
            raise errors.UserError(f"{file}: {error}") from error
        if len(found) != 1 or not isinstance(found[0], dict):
            raise errors.UserError(f"{file}: holds {len(found)} objects", "give the manifest of one pod")
        document = found[0]
        return {**document, "metadata": {"namespace": self._namespace, **(document.get("metadata") or {})}}

    def _asker(self) -> explain_client.ExplainClient:
        loaded = self._loaded or third_party.default(builtin.registry())
        asked = self._loaded is not None  # the result under this configuration, whatever its profile is called
        return explain_client.ExplainClient(loaded, clock=system.SystemClock(), rng=system.rng(), any_name=asked)


# --- output -----------------------------------------------------------------------------------------------------------


def _show(explanation: Explanation) -> None:
    where = f" (on {explanation.current_node})" if explanation.current_node else ""
    name = f"{explanation.metadata.namespace}/{explanation.metadata.name}"
    click.echo(f"{_painted(name, bold=True)}{where} {_painted(explanation.summary, fg=_COLOURS[explanation.outcome])}")
    if explanation.combination:
        click.echo(f"\n{explanation.combination}")
    if explanation.changes:
        click.echo(f"\n{_painted('What would have to change', bold=True)}")
        for change in explanation.changes:
            click.echo(f"  {_change(change)}")
    if explanation.no_room:
        click.echo(f"\n{_painted('No room can be made', bold=True)}\n  {explanation.no_room}")
    if explanation.nodes:
        click.echo()
        _show_nodes(explanation)
    if explanation.omitted:
        click.echo(f"and {explanation.omitted} more nodes; --all shows them")


def _show_nodes(explanation: Explanation) -> None:
    tried = any(node.eviction is not None for node in explanation.nodes)
    columns = ["NODE", "VERDICT", "TOTAL", "WHY", *(["EVICTIONS"] if tried else [])]
    rows = [
        [
            node.name,
            "best" if node.best else "front" if node.on_front else "feasible" if node.feasible else "refused",
            node.total if node.feasible and not explanation.combination else "",
            "; ".join(_why(node)),
            *([_eviction(node.eviction)] if tried else []),
        ]
        for node in explanation.nodes
    ]
    output.table(columns, rows, right={"TOTAL"})


def _why(node: Node) -> Iterator[str]:
    for score in node.scores:
        weight = f"x{score.weight}" if score.weight != 1 else ""
        cost = f" ({score.cost:.4g} {score.unit})" if score.cost is not None else ""
        yield f"{score.plugin} {score.score}{weight}{cost}"
    for refusal in node.refusals:
        yield f"{refusal.plugin}: {', '.join(refusal.reasons)}"


def _eviction(eviction: Eviction | None) -> str:
    if eviction is None:
        return ""
    if not eviction.victims:
        return eviction.reason
    broken = f" ({eviction.budgets_broken} protected by budgets)" if eviction.budgets_broken else ""
    return f"{', '.join(map(_victim, eviction.victims))}{broken}"


def _victim(pod: Victim) -> str:
    return f"{pod.namespace}/{pod.name}"


def _change(change: Change) -> str:
    if not change.opens:
        return f"{change.text} (not enough by itself: there is another obstacle on the same nodes)"
    return change.text


def _painted(text: str, **style: Any) -> str:
    """Colour for a terminal; unprintable characters are replaced, so that names contain no control sequences."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return click.style(plain, **style) if logs.wants_colour(sys.stdout) else plain
