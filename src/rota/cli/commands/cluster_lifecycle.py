"""`rota cluster`: reads the file and the journal, observes, plans, and runs or prints the plan."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
import yaml

from rota.cli import output
from rota.kit import errors, system
from rota.kit.levels import Levels
from rota.lifecycle import bundle, cluster_spec, journal, planner, runner
from rota.lifecycle.cluster_spec import ClusterSpec, Member, Role
from rota.lifecycle.journal import Journal, Record
from rota.lifecycle.observed import MemberState, Observed
from rota.lifecycle.planner import Verb
from rota.lifecycle.reach import Reach
from rota.lifecycle.runner import Runner
from rota.lifecycle.steps import Plan

#: The exit code of a command that did what it could, while the cluster is not as its file says.
_INCOMPLETE: Final = 1


def run(
    verb: str,
    *,
    file: Path,
    only_plan: bool,
    as_json: bool,
    forget: Sequence[str] = (),
    force: bool = False,
    hold_level: bool = False,
) -> None:
    """Carry out a verb, or print its plan."""
    spec, release, speaks, working = _prepared(file, force=force)

    def planned(observed: Observed) -> Plan:
        return planner.plan(
            Verb(verb), spec, observed, release=release, speaks=speaks, hold_level=hold_level, forget=forget
        )

    if only_plan:
        found = journal.read(journal.path_of(file))
        plan = planned(working.observe(found.inventory))
        _show_plan(plan, as_json=as_json)
        return
    with Journal(journal.path_of(file), spec.name) as kept:
        if kept.record.verb and not as_json:
            output.note(_unfinished(kept.record))
        observed = working.observe(kept.record.inventory)
        if verb == Verb.CREATE:
            observed = _adopted(kept, spec, observed)
        plan = planned(observed)
        say = output.note if as_json else click.echo
        working.run(plan, kept, verb=verb, say=say, clock=system.SystemClock())
    if as_json:
        output.document({"cluster": spec.name, "steps": len(plan.steps), "left": list(plan.left)})
    else:
        click.echo(_summary(verb, spec, plan))
    for one in plan.left:
        output.note(one)
    if plan.left:
        sys.exit(_INCOMPLETE)


def _adopted(kept: Journal, spec: ClusterSpec, observed: Observed) -> Observed:
    """Members of this cluster that run already are in the journal from now on, even if that was lost."""
    for member in spec.members:
        if member.name not in observed.inventory and observed.state(member.name).cluster == spec.name:
            kept.placing(member)
    return replace(observed, inventory=dict(kept.record.inventory))


def status(*, file: Path, as_json: bool) -> None:
    """Show what the machines report."""
    spec, release, _, working = _prepared(file, force=False)
    record = journal.read(journal.path_of(file))
    observed = working.observe(record.inventory)
    members = {**record.inventory, **{one.name: one for one in spec.members}}
    rows = [_row(one, observed, spec) for one in members.values()]
    plan, problem = _repairs(spec, observed, release)
    if as_json:
        output.document(
            {
                "cluster": spec.name,
                "level": observed.level,
                "members": rows,
                "unfinished": _unfinished(record) if record.verb else None,
                "repairs": [one.as_json() for one in plan.steps],
                "left": [*plan.left, *problem],
            }
        )
    else:
        output.table(
            ["NAME", "ROLE", "ADDRESS", "STATE", "RELEASE", "DETAIL"],
            [[one[name] for name in ("name", "role", "address", "state", "release", "detail")] for one in rows],
        )
        if observed.level is not None:
            click.echo(f"the cluster has level {observed.level}")
        if record.verb:
            click.echo(_unfinished(record))
        for line in (*(one.text for one in plan.steps), *plan.left, *problem):
            click.echo(f"needed: {line}")
    if record.verb or plan.steps or plan.left or problem:
        sys.exit(_INCOMPLETE)


def _repairs(spec: ClusterSpec, observed: Observed, release: str) -> tuple[Plan, tuple[str, ...]]:
    try:
        return planner.plan(Verb.REPAIR, spec, observed, release=release), ()
    except errors.UserError as problem:
        return Plan(steps=()), (str(problem),)


def _prepared(file: Path, *, force: bool) -> tuple[ClusterSpec, str, Levels | None, Runner]:
    """The file, the release of its bundle with its levels, and what works on the machines."""
    spec = _read(file)
    path = file.parent / spec.bundle if spec.bundle else None
    release = bundle.release(path) if path is not None else ""
    speaks = bundle.levels(path) if path is not None else None
    reach = Reach(spec, folder=file.absolute().parent)
    return spec, release, speaks, runner.Runner(spec, reach, release=release, bundle=path, force=force)


def _read(file: Path) -> ClusterSpec:
    try:
        return cluster_spec.parse(yaml.safe_load(file.read_text()))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        said = " ".join(str(problem).split())
        raise errors.UserError(f"cannot read {file}: {said}", "see 'rota cluster --help'") from None


def _row(member: Member, observed: Observed, spec: ClusterSpec) -> dict[str, str]:
    state = observed.state(member.name)
    return {
        "name": member.name,
        "role": str(member.role),
        "address": member.address,
        "state": _state(member, state, observed),
        "release": state.started_release or ("(installed program)" if state.running else ""),
        "detail": state.fault
        or ("" if spec.member(member.name) else "not in the file: 'rota cluster scale' removes it"),
    }


def _state(member: Member, state: MemberState, observed: Observed) -> str:
    if not state.reachable:
        return "Unknown"
    if not state.placed:
        return "absent"
    if not state.running:
        return "stopped"
    if member.role is Role.MASTER:
        return "Ready" if state.serving else "NotReady"
    node = (observed.nodes or {}).get(member.name)
    return "Ready" if node is not None and node.ready else "NotReady"


def _show_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        output.document({"steps": [one.as_json() for one in plan.steps], "left": list(plan.left)})
        return
    for number, one in enumerate(plan.steps, start=1):
        click.echo(f"{number:3}  {one.text}")
    if not plan.steps:
        click.echo("nothing to do")
    for line in plan.left:
        output.note(line)


def _unfinished(record: Record) -> str:
    done = len(record.done.intersection(record.steps))
    return f"an earlier '{record.verb}' was cut off: {done} of {len(record.steps)} steps are done"


def _summary(verb: str, spec: ClusterSpec, plan: Plan) -> str:
    if not plan.steps:
        return (
            f"nothing to do: the cluster {spec.name} is as its file says" if not plan.left else "nothing could be done"
        )
    if verb == Verb.DELETE:
        return f"the cluster {spec.name} is deleted" if not plan.left else f"the cluster {spec.name} is deleted in part"
    return f"{len(plan.steps)} steps done: {len(spec.masters)} masters and {len(spec.workers)} workers"
