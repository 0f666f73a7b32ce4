"""Pipelines, their runs and the runs of their steps."""

from typing import Final

from rota.api import times
from rota.api.identifiers import GroupResource
from rota.apiserver.printing import durations
from rota.apiserver.printing.columns import NONE, Cells, Object, Printer, Printers, age, at, columns, items, name

_COUNTED: Final = ("succeeded", "cached", "skipped")


def _pipeline(obj: Object, now: float) -> Cells:
    return [
        name(obj),
        len(items(obj, "spec", "steps")),
        at(obj, "spec", "schedule", "cron") or NONE,
        len(items(obj, "status", "active")),
        at(obj, "status", "lastRun") or NONE,
        age(obj, now),
    ]


def _run(obj: Object, now: float) -> Cells:
    counts = at(obj, "status", "counts") or {}
    done = sum(counts.get(one) or 0 for one in _COUNTED)
    return [
        name(obj),
        at(obj, "spec", "pipeline") or NONE,
        at(obj, "status", "phase") or "Pending",
        f"{done}/{sum(value or 0 for value in counts.values())}",
        counts.get("failed") or 0,
        _duration(obj, now),
        age(obj, now),
        at(obj, "status", "message") or "",
    ]


def _step(obj: Object, now: float) -> Cells:
    return [
        name(obj),
        at(obj, "spec", "run") or "",
        at(obj, "spec", "step") or "",
        at(obj, "status", "phase") or "Waiting",
        at(obj, "status", "attempts") or 0,
        _duration(obj, now),
        age(obj, now),
        at(obj, "status", "node") or NONE,
        at(obj, "status", "message") or "",
    ]


def _duration(obj: Object, now: float) -> str:
    started, finished = at(obj, "status", "startedAt"), at(obj, "status", "finishedAt")
    if not started:
        return ""
    return durations.since(started, times.parse(finished) if finished else now)


PRINTERS: Final[Printers] = {
    GroupResource("rota.dev", "pipelines"): Printer(
        columns=columns("""
            Name     | string name | The name of the pipeline.
            Steps    | integer     | How many steps it has.
            Schedule | string      | When it is run by itself, in cron's notation.
            Active   | integer     | How many of its runs go on.
            Last Run | string      | Its latest run.
            Age      | string      | How long the pipeline has existed.
        """),
        cells=_pipeline,
    ),
    GroupResource("rota.dev", "pipelineruns"): Printer(
        columns=columns("""
            Name     | string name | The name of the run.
            Pipeline | string      | The pipeline that is run.
            Status   | string      | How far it has come, in one word.
            Done     | string      | How many step runs are done, of how many there are.
            Failed   | integer     | How many step runs failed.
            Duration | string      | How long it has been running, or ran.
            Age      | string      | How long the run has existed.
            Message  | string wide | Why it is as it is.
        """),
        cells=_run,
    ),
    GroupResource("rota.dev", "stepruns"): Printer(
        columns=columns("""
            Name     | string name | The name of the step run.
            Run      | string      | The run of a pipeline that it belongs to.
            Step     | string      | The step.
            Status   | string      | How far it has come, in one word.
            Attempts | integer     | How often it was begun.
            Duration | string      | How long the latest try has been going on, or took.
            Age      | string      | How long the step run has existed.
            Node     | string wide | Where it runs, or ran last.
            Message  | string wide | Why it is as it is.
        """),
        cells=_step,
    ),
}
