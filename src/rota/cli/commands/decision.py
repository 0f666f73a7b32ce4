"""`rota decide`: decides scenarios or a cluster dump offline."""

import contextlib
import gzip
import json
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import click
import msgspec

from rota.cli import output
from rota.cli.commands import cluster_files
from rota.cli.commands.cluster_files import STANDARD_INPUT
from rota.columns.objects import MalformedObjectError
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.kit.errors import UserError
from rota.kit.system import SystemClock
from rota.scheduler.batch import scenarios as batch_scenarios
from rota.scheduler.batch.outcomes import Outcome
from rota.scheduler.batch_profile import hook_requests
from rota.scheduler.config import resolution
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.config.resolution import Configuration
from rota.scheduler.config.specs import specs_of
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.explanation import decision_report
from rota.scheduler.explanation.decision_report import Explanation
from rota.scheduler.framework.registry import ProfileSpec
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.snapshot import scenarios
from rota.scheduler.snapshot.scenarios import Scenario

#: A decision on one pod, the result of a batch session, or an error.
Answer = Explanation | Outcome | str

#: How documents begin that span several lines.
_BEGINNINGS: Final = frozenset({b"{", b"["})
_DUMP: Final = "a dump of a cluster is given with --cluster, and the pod to place there with --pod"


def decide(
    *,
    files: tuple[Path, ...],
    dumps: tuple[Path, ...],
    pod_file: Path | None,
    batch_config: Path | None,
    configured: Loaded,
    as_table: bool,
) -> bool:
    """Print a decision for each scenario; returns whether all could be decided."""
    if batch_config is not None:
        answers: Iterable[tuple[str | None, Answer]] = [(None, _session(dumps, batch_config))]
    elif pod_file is not None:
        answers = [_what_if(dumps, pod_file, configured)]
    else:
        answers = _scenarios(files, configured)
    undecided = False
    for name, answer in answers:
        undecided |= isinstance(answer, str) or (isinstance(answer, Explanation) and answer.failure is not None)
        if as_table:
            _show(name, answer)
        else:
            click.echo(json.dumps({"id": name, **_document(answer)}, ensure_ascii=False))
    return not undecided


def _document(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, str):
        return {"error": answer}
    if isinstance(answer, Outcome):
        return {"decision": answer.document()}
    return decision_report.to_document(answer)


def _what_if(dumps: tuple[Path, ...], pod_file: Path, configured: Loaded) -> tuple[str, Explanation]:
    interner = PodInterner()
    objects = [entry for dump in dumps for entry in cluster_files.objects(dump)]
    manifests = cluster_files.objects(pod_file)
    if len(manifests) != 1:
        raise UserError(f"{pod_file}: holds {len(manifests)} objects", "give the manifest of one pod")
    ((path, manifest),) = manifests
    try:
        cluster = scenarios.read_dump(objects, interner)
        pod = scenarios.read_incoming(manifest, cluster, interner, path=path)
    except MalformedObjectError as error:
        raise UserError(str(error)) from error
    profile = _profile_of(pod, configured.configuration)
    return pod.key, _decide(Scenario(cluster=cluster, pod=pod), profile, configured)


def _session(dumps: tuple[Path, ...], batch_config: Path) -> Outcome:
    """Run one session of batch scheduling on a dump, at the current time."""
    objects = [entry for dump in dumps for entry in cluster_files.objects(dump)]
    now = datetime.fromtimestamp(int(SystemClock().now()), UTC).isoformat()
    try:
        conf = cluster_files.read(batch_config).decode(errors="replace")
        scenario = batch_scenarios.from_dump(scenarios.flattened(objects), conf=conf, now=now)
        return batch_scenarios.decide(scenario, ask=hook_requests.ask)
    except MalformedObjectError as error:
        raise UserError(str(error)) from error
    except ConfigurationError as error:
        raise UserError(f"{batch_config}: {'; '.join(map(str, error.faults))}") from error


def _profile_of(pod: PodInfo, configuration: Configuration) -> ProfileSpec:
    """The profile that the scheduler would choose; the only one if there is just one."""
    wanted = pod.shape.scheduler_name
    if wanted in configuration.profiles:
        return configuration.profiles[wanted]
    if len(configuration.profiles) == 1:
        return configuration.first
    known = ", ".join(configuration.profiles)
    raise UserError(f'no profile is for schedulerName "{wanted}" of {pod.key}', f"set it to one of {known}")


def _scenarios(files: tuple[Path, ...], configured: Loaded) -> Iterator[tuple[str | None, Answer]]:
    """Decide line by line; an invalid line gets an error message as its answer, and the next one follows."""
    specs = specs_of(configured.registry)
    for number, line in enumerate(_lines(files or (STANDARD_INPUT,)), start=1):
        name: str | None = None
        place = "config"
        try:
            scenario = _object(line, number)
            name = scenario.get("id")
            if batch_scenarios.is_batch(scenario):
                place = "conf"
                yield name, batch_scenarios.decide(scenario, ask=hook_requests.ask)
                continue
            situation = scenarios.read_scenario(scenario, PodInterner())
            profile = configured.configuration.first
            if (config := scenario.get("config")) is not None:
                profile = resolution.resolve(resolution.read(config), specs).first
            yield name, _decide(situation, profile, configured)
        except MalformedObjectError as error:
            yield name, str(error)
        except ConfigurationError as error:
            yield name, "; ".join(str(fault.below(place)) for fault in error.faults)
        except UserError:
            raise
        except Exception as error:  # noqa: BLE001 - one line must not take the others with it
            traceback.print_exception(error)
            yield name, f"Rota failed on this, please report it: {type(error).__name__}: {error}"


def _decide(situation: Scenario, profile: ProfileSpec, configured: Loaded) -> Explanation:
    framework = Framework(profile, configured.registry)
    return decision_report.explain(Decider(framework, situation.cluster).decide(situation.pod))


# --- input ------------------------------------------------------------------------------------------------------------


def _lines(files: tuple[Path, ...]) -> Iterator[bytes]:
    for file in files:
        with contextlib.ExitStack() as opened:
            source: Iterable[bytes] = sys.stdin.buffer
            if file != STANDARD_INPUT:
                source = opened.enter_context(_opened(file))
            yield from (line for line in source if line.strip())


def _opened(file: Path) -> gzip.GzipFile | IO[bytes]:
    try:
        return gzip.open(file) if file.suffix == ".gz" else file.open("rb")
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error


def _object(line: bytes, number: int) -> Mapping[str, Any]:
    try:
        scenario = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        if number == 1 and line.rstrip() in _BEGINNINGS:
            raise UserError("the first line holds no whole JSON object", _DUMP) from error
        raise MalformedObjectError(f"line {number}", f"not JSON: {error}") from error
    if not isinstance(scenario, dict):
        raise MalformedObjectError(f"line {number}", "expected an object")
    if "apiVersion" in scenario and "pod" not in scenario:
        raise UserError(f"line {number} holds a {scenario.get('kind')}, not a scenario", _DUMP)
    return scenario


# --- output -----------------------------------------------------------------------------------------------------------


def _show(name: str | None, answer: Answer) -> None:
    """Print a decision as text: the result, then every node, best first."""
    if isinstance(answer, str):
        click.echo(f"{name or 'pod'}: {answer}\n")
        return
    if isinstance(answer, Outcome):
        _show_session(name, answer)
        return
    click.echo(f"{name or 'pod'} {decision_report.summary(answer)}")
    if answer.combination:
        click.echo(answer.combination)
    if answer.verdicts:
        click.echo()
        order = sorted(answer.verdicts, key=lambda node: (-answer.totals.get(node, -1), node))
        output.table(["NODE", "VERDICT", "TOTAL", "WHY"], (_row(node, answer) for node in order), right={"TOTAL"})
    click.echo()


def _row(node: str, answer: Explanation) -> tuple[str, str, object, str]:
    status = answer.verdicts[node]
    if status.ok:
        shares = sorted(answer.scores[node].items(), key=lambda share: (-share[1], share[0]))
        why = ", ".join(f"{plugin} {score}{_cost(answer.costs[node].get(plugin))}" for plugin, score in shares)
        verdict = "best" if node in answer.best else "front" if node in answer.front else "feasible"
        return node, verdict, "" if answer.combination else answer.totals[node], why
    why = f"{status.plugin}: {', '.join(sorted(status.reasons))}" if status.reasons else status.plugin
    return node, status.code.value, "", why


def _cost(cost: tuple[float, str] | None) -> str:
    """The cost of an objective in its unit."""
    return "" if cost is None else f" ({cost[0]:.4g} {cost[1]})"


def _show_session(name: str | None, outcome: Outcome) -> None:
    """Print the result of a batch session: decisions about pods, then the state of the groups."""
    click.echo(f"{name or 'session'}\n")
    rows: list[tuple[str, str, str, str]] = [
        (pod, *(("Bind", detail, "") if kind == "bind" else ("Evict", "", f"by {detail}")))
        for kind, pod, detail in outcome.order
    ]
    for pod, (reason, message, _) in outcome.pods.items():
        verdict = "Hold" if pod in outcome.held else "Pipeline" if pod in outcome.pipelined else reason
        rows.append((pod, verdict, outcome.held.get(pod) or outcome.pipelined.get(pod, ""), message))
    output.table(["POD", "VERDICT", "NODE", "WHY"], rows)
    click.echo()
    states = ((group, phase, _said_of(group, outcome)) for group, phase in outcome.phases.items())
    output.table(["GROUP", "PHASE", "WHY"], states)
    click.echo()


def _said_of(group: str, outcome: Outcome) -> str:
    condition = outcome.conditions.get(group)
    return "" if condition is None else condition.message or condition.reason
