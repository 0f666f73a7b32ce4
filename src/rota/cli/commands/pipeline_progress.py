"""Shows a run: its steps with states, times and the reason of what waits; once, or with every change.

On a terminal it is an updated table, in a pipe a line per change. Following a run to its end returns an exit code for
its result.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from rota.api import codec, meta, times
from rota.api.pipelines import diagrams, object_names
from rota.cli import output
from rota.cli.commands import log_reader, session
from rota.cli.commands.log_reader import LogRequest
from rota.client.endpoints import Endpoint
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.paths import Target
from rota.client.verbs import Client, Object, Selection
from rota.kit import system

PIPELINES: Final = ("rota.dev", "v1alpha1", "pipelines")
RUNS: Final = ("rota.dev", "v1alpha1", "pipelineruns")
STEP_RUNS: Final = ("rota.dev", "v1alpha1", "stepruns")
PODS: Final = ("", "v1", "pods")
OVER: Final = frozenset({"Succeeded", "Failed", "Cancelled"})
_COLUMNS: Final = ("STEP", "STATE", "TIME", "NODE", "WHY")
_SHOWN_EVERY_S: Final = 0.2
#: The interval between lists of a run's pods.
_LOOKED_EVERY_S: Final = 1.0
_FAILED: Final = 1


@dataclass(frozen=True, slots=True)
class Seen:
    """A run, its step runs and their pods, at one time."""

    run: Object
    steps: Sequence[Object]
    pods: Sequence[Object]

    @property
    def phase(self) -> str:
        """The run's phase."""
        return str((self.run.get("status") or {}).get("phase") or "Pending")


def of_run(name: str, step: str = "") -> Selection:
    """The selector of a run's objects, or of one of its steps."""
    labels = f"{object_names.RUN_LABEL}={object_names.label(name)}"
    return Selection(labels=f"{labels},{object_names.STEP_LABEL}={step}" if step else labels)


async def seen(client: Client, name: str, namespace: str) -> Seen:
    """The current state of a run."""
    run = await client.get(RUNS, name, namespace=namespace)
    selection = of_run(name)
    steps = await client.list(STEP_RUNS, namespace=namespace, selection=selection)
    pods = await client.list(PODS, namespace=namespace, selection=selection)
    return Seen(run, steps.items, pods.items)


def show(found: Seen) -> None:
    """Print a run with its steps."""
    head = summary(found.run)
    lasted = f", {head[4]}" if head[4] else ""
    click.echo(f"{head[0]}: {output.painted(str(head[2]), bold=True)}, {head[3]} done{lasted}")
    if head[5]:
        click.echo(output.printable(head[5]))
    steps = rows(found)
    if steps:  # a refused run has none
        output.table(_COLUMNS, steps)


def summary(run: Object, *, everywhere: bool = False) -> list[str]:
    """A run on one line."""
    status = run.get("status") or {}
    counts = status.get("counts") or {}
    done = sum(counts.get(one) or 0 for one in ("succeeded", "cached", "skipped"))
    line = [
        meta.name(run),
        run["spec"].get("pipeline") or "-",
        status.get("phase") or "Pending",
        f"{done}/{sum(counts.values())}",
        _lasted(status),
        status.get("message") or "",
    ]
    return [meta.namespace(run), *line] if everywhere else line


def rows(found: Seen) -> list[list[str]]:
    """The steps of a run in order; a step with items is one line, with notable items below."""
    spec = (found.run.get("status") or {}).get("spec") or {}
    by_step: dict[str, list[Object]] = {}
    for one in found.steps:
        by_step.setdefault(one["spec"]["step"], []).append(one)
    waiting = {meta.name(pod): _waits_for(pod) for pod in found.pods}
    lines: list[list[str]] = []
    for step in (*(spec.get("steps") or ()), *(spec.get("onExit") or ())):
        known = sorted(by_step.get(step["name"], ()), key=lambda one: one["spec"].get("index") or 0)
        if not known:
            lines.append([f"{diagrams.MARKS['Waiting']} {step['name']}", "", "", "", _before(step, by_step)])
        elif len(known) == 1 and known[0]["spec"].get("index") is None:
            lines.append(_line(step["name"], known[0], waiting))
        else:
            lines += _several(step["name"], known, waiting)
    return lines


def _line(name: str, step_run: Object, waiting: Mapping[str, str]) -> list[str]:
    status = step_run.get("status") or {}
    phase = status.get("phase") or "Waiting"
    why = status.get("message") or ""
    if phase == "Running":
        why = waiting.get(object_names.short(f"{meta.name(step_run)}-{(status.get('attempts') or 1) - 1}"), "")
    if phase == "Waiting" and status.get("notBefore"):
        left_s = times.parse(status["notBefore"]) - system.SystemClock().now()
        why = f"tried again in {max(left_s, 0.0):.0f}s: {why}"
    tries = f" ({status['attempts']} tries)" if (status.get("attempts") or 0) > 1 else ""
    return [
        f"{diagrams.MARKS.get(phase, '?')} {name}",
        f"{phase}{tries}",
        _lasted(status),
        status.get("node") or "",
        why,
    ]


def _several(name: str, known: Sequence[Object], waiting: Mapping[str, str]) -> list[list[str]]:
    phases = [(one.get("status") or {}).get("phase") or "Waiting" for one in known]
    done = sum(phase in {"Succeeded", "Cached", "Skipped"} for phase in phases)
    state = diagrams.outcome(phases)
    lines = [
        [
            f"{diagrams.MARKS.get(state, '?')} {name}",
            state,
            "",
            "",
            f"{diagrams.bar(done, len(known))} {done}/{len(known)}",
        ]
    ]
    worth = [one for one, phase in zip(known, phases, strict=True) if phase in {"Failed", "Running"}]
    worth += [
        one
        for one, phase in zip(known, phases, strict=True)
        if phase == "Waiting" and (one.get("status") or {}).get("message")
    ]
    lines += [
        [f"  {line[0]}", *line[1:]]
        for line in (_line(f"{name}[{one['spec'].get('index')}]", one, waiting) for one in worth[:5])
    ]
    return lines


def _before(step: Mapping[str, Any], by_step: Mapping[str, Sequence[Object]]) -> str:
    open_ones = [
        name
        for name in step.get("dependsOn") or ()
        if not by_step.get(name)
        or any((one.get("status") or {}).get("phase") in {None, "Waiting", "Running"} for one in by_step[name])
    ]
    return f"after {', '.join(open_ones)}" if open_ones else ""


def _waits_for(pod: Object) -> str:
    """Why a pod does not run yet."""
    condition = meta.condition(pod, "PodScheduled")
    if condition is not None and condition.get("status") == "False":
        return str(condition.get("message") or "")
    return ""


def _lasted(status: Mapping[str, Any]) -> str:
    if not status.get("startedAt"):
        return ""
    end = times.parse(status["finishedAt"]) if status.get("finishedAt") else system.SystemClock().now()
    seconds = max(0.0, end - times.parse(status["startedAt"]))
    if seconds < 60:
        if "." in status["startedAt"]:
            return f"{seconds:.1f}s"
        return f"{int(seconds)}s" if seconds >= 1 else "<1s"  # times of a run are whole seconds
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


# --- watch ------------------------------------------------------------------------------------------------------------


def follow(endpoint: Endpoint, name: str, namespace: str) -> None:
    """Show a run until it is over; returns an exit code for its result."""
    found = session.at(endpoint, lambda client: _followed(client, name, namespace))
    message = (found.run.get("status") or {}).get("message") or ""
    said = f": {output.printable(message)}" if message else ""
    lasted = _lasted(found.run["status"])
    click.echo(f"{name} {found.phase.lower()}{f' after {lasted}' if lasted else ''}{said}")
    if found.phase != "Succeeded":
        raise click.exceptions.Exit(_FAILED)


async def _followed(client: Client, name: str, namespace: str) -> Seen:
    await client.get(RUNS, name, namespace=namespace)  # a misspelt name must not wait
    clock, rng = system.SystemClock(), system.rng()
    changed = asyncio.Event()

    def informer(target: Target, selection: Selection) -> Informer[Object]:
        source = Source(client=client, target=target, namespace=namespace, selection=selection)
        made = Informer[Object](source, decode=codec.decode, clock=clock, rng=rng)
        made.add_handler(lambda _key, _old, _new: changed.set())
        return made

    runs = informer(RUNS, Selection(fields=f"metadata.name={name}"))
    steps, pods = informer(STEP_RUNS, of_run(name)), informer(PODS, of_run(name))
    following = [asyncio.ensure_future(one.run()) for one in (runs, steps, pods)]
    try:
        for one in (runs, steps, pods):
            await one.wait_synced()
        with output.live() as table:
            told: dict[str, str] = {}
            while True:
                changed.clear()
                run = runs.cache.get(name, namespace)
                if run is None:
                    return Seen({"spec": {}, "status": {"phase": "Cancelled", "message": "it was deleted"}}, (), ())
                found = Seen(run, list(steps.cache.values()), list(pods.cache.values()))
                if table is not None:
                    table(_COLUMNS, rows(found))
                else:
                    _tell(found, told)
                if found.phase in OVER:
                    return found
                await clock.sleep(_SHOWN_EVERY_S)
                with contextlib.suppress(TimeoutError):  # elapsed times change without events
                    await clock.wait_for(changed.wait(), 1.0 if table is not None else 3600.0)
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


def _tell(found: Seen, told: dict[str, str]) -> None:
    """A line for each step run whose state has changed."""
    for one in sorted(found.steps, key=lambda one: (one.get("status") or {}).get("startedAt") or ""):
        status = one.get("status") or {}
        phase = status.get("phase") or "Waiting"
        if phase == "Waiting" or told.get(meta.name(one)) == phase:
            continue
        told[meta.name(one)] = phase
        index = one["spec"].get("index")
        name = one["spec"]["step"] if index is None else f"{one['spec']['step']}[{index}]"
        # it includes a container's termination message
        why = f": {output.printable(status['message'])}" if status.get("message") else ""
        click.echo(f"{diagrams.MARKS.get(phase, '?')} {name} {phase.lower()} {_lasted(status)}{why}".rstrip())


async def print_logs(client: Client, name: str, namespace: str, *, step: str, follow: bool) -> None:
    """The output of a run's steps; follows while the run continues."""
    await client.get(RUNS, name, namespace=namespace)
    clock = system.SystemClock()
    shown: set[str] = set()
    async with asyncio.TaskGroup() as readers:
        while True:
            run = await client.get(RUNS, name, namespace=namespace)
            over = ((run.get("status") or {}).get("phase") or "") in OVER
            listed = await client.list(PODS, namespace=namespace, selection=of_run(name, step))
            for pod in _in_order(listed.items):
                if meta.uid(pod) not in shown:
                    shown.add(meta.uid(pod))
                    reader = log_reader.print_pod(client, pod, LogRequest(follow=follow), label=_step_of(pod))
                    if follow:
                        readers.create_task(reader)
                    else:
                        await reader
            if over or not follow:
                return
            await clock.sleep(_LOOKED_EVERY_S)


def _in_order(pods: Iterable[Object]) -> list[Object]:
    return sorted(pods, key=lambda pod: (meta.metadata(pod).get("creationTimestamp") or "", meta.name(pod)))


def _step_of(pod: Object) -> str:
    step, item = (
        meta.labels(pod).get(object_names.STEP_LABEL) or meta.name(pod),
        meta.annotations(pod).get(object_names.ITEM),
    )
    return step if item is None else f"{step}[{item}]"
