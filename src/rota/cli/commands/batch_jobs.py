"""`rota job`: starts, lists, shows and changes batch jobs."""

import secrets
from collections.abc import Mapping
from typing import Any, Final

import click

from rota.api import errors as api_errors
from rota.api import meta, quantities, times
from rota.api.batch import kinds, policies
from rota.cli import endpoints, output
from rota.cli.commands import manifest_files, session
from rota.client.verbs import Client, Object, Propagation, Selection
from rota.kit import errors, system

EVENTS: Final = ("", "v1", "events")
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_COUNTS: Final = ("pending", "running", "succeeded", "failed")
_COMMANDS: Final = {"suspend": policies.ABORT_JOB, "resume": policies.RESUME_JOB}
_DONE: Final = {"suspend": "is being suspended", "resume": "is being resumed"}
_HEAD: Final = ["NAME", "PHASE", "QUEUE", "MIN", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "RETRIES", "AGE", "WHY"]
_RIGHT: Final = ("MIN", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "RETRIES")
#: Events of a job that are shown.
_LATEST: Final = 10


def run(*, words: tuple[str, ...], file: str, namespace: str, as_json: bool, **given: Any) -> None:
    """Start a job."""
    server = {name: given.pop(name) for name in ("kubeconfig_file", "context", "server")}
    made = _of_file(file) if file else _of_command(words, **given)
    endpoint = endpoints.own_cluster(**server)
    where = namespace or meta.namespace(made) or endpoint.namespace
    placed = {**made, "metadata": {**meta.metadata(made), "namespace": where}}
    created = session.at(endpoint, lambda client: client.create(kinds.JOBS, placed))
    if as_json:
        output.document(created)
        return
    click.echo(f"job.batch.volcano.sh/{meta.name(created)} created")
    output.note(f"see what it waits for with: rota job view {meta.name(created)}")


def _of_file(file: str) -> Object:
    read = manifest_files.read([file])
    if fault := next((one for one in read if one.fault), None):
        raise errors.UserError(f"{fault.where}: {fault.fault}")
    found = [one.obj for one in read]
    jobs = [one for one in found if one.get("kind") == "Job" and str(one.get("apiVersion")).startswith(kinds.BATCH)]
    if len(jobs) != 1 or len(found) != 1:
        raise errors.UserError(f"{file} does not hold one job of {kinds.BATCH}", "use rota submit for other objects")
    return jobs[0]


def _of_command(
    words: tuple[str, ...],
    *,
    name: str,
    image: str,
    replicas: int,
    least: int | None,
    gang: bool,
    queue: str,
    requests: str,
    limits: str,
    scheduler: str,
) -> Object:
    if not words and image == "none":
        raise errors.UserError("there is nothing to run", "give a command after --, an --image, or a file with -f")
    resources = {
        kind: amounts
        for kind, amounts in (("requests", parse_amounts(requests)), ("limits", parse_amounts(limits)))
        if amounts
    }
    container: Object = {"name": "main", "image": image}
    if words:
        container["command"] = list(words)
    if resources:
        container["resources"] = resources
    enough = least if least is not None else replicas if gang else 1
    task = {
        "name": "task",
        "replicas": replicas,
        "minAvailable": enough,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    spec: Object = {"minAvailable": enough, "tasks": [task], "plugins": {"env": [], "svc": []}}
    spec |= {field: value for field, value in (("queue", queue), ("schedulerName", scheduler)) if value}
    chosen = name or f"job-{''.join(secrets.choice(_LETTERS) for _ in range(5))}"
    return {"apiVersion": f"{kinds.BATCH}/v1alpha1", "kind": "Job", "metadata": {"name": chosen}, "spec": spec}


def parse_amounts(text: str) -> dict[str, str]:
    """Resources from `cpu=1,memory=1Gi`."""
    found: dict[str, str] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, given, value = part.partition("=")
        try:
            if not given:
                raise quantities.QuantityError(part)
            quantities.parse(value)
        except quantities.QuantityError:
            raise errors.UserError(f"{part!r} is no amount of a resource", "write cpu=500m,memory=1Gi") from None
        found[name.strip()] = value
    return found


def list_(
    *, queue: str, scheduler: str, selector: str, namespace: str, everywhere: bool, as_json: bool, **server: Any
) -> None:
    """List jobs, latest first."""
    endpoint = endpoints.nearest(**server)

    async def work(client: Client) -> list[Object]:
        where = "" if everywhere else namespace or endpoint.namespace
        found = (await client.list(kinds.JOBS, namespace=where, selection=Selection(labels=selector))).items
        return [
            one
            for one in found
            if queue in ("", one["spec"].get("queue")) and scheduler in ("", one["spec"].get("schedulerName"))
        ]

    found = session.at(endpoint, work)
    found.sort(key=lambda one: meta.metadata(one).get("creationTimestamp") or "", reverse=True)
    if as_json:
        output.document(found)
    elif not found:
        output.note("there are no jobs")
    else:
        now = system.SystemClock().now()
        rows = [[meta.namespace(one), *summary(one, now=now)] if everywhere else summary(one, now=now) for one in found]
        output.table(["NAMESPACE", *_HEAD] if everywhere else _HEAD, rows, right=_RIGHT)


def summary(job: Object, *, now: float) -> list[str]:
    """A job on one line."""
    status, spec = job.get("status") or {}, job["spec"]
    return [
        meta.name(job),
        phase_of(job),
        spec.get("queue") or kinds.DEFAULT_QUEUE,
        str(spec.get("minAvailable", 0)),
        *(str(status.get(name, 0)) for name in _COUNTS),
        str(status.get("retryCount", 0)),
        age(job, now=now),
        str((status.get("state") or {}).get("message") or ""),
    ]


def phase_of(job: Object) -> str:
    """The phase of a job."""
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "Pending")


def age(obj: Object, *, now: float) -> str:
    """How old an object is, in whole seconds, minutes or hours."""
    seconds = max(now - times.parse(meta.metadata(obj)["creationTimestamp"]), 0.0)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.0f}s"


def view(*, name: str, namespace: str, as_json: bool, **server: Any) -> None:
    """Show one job."""
    endpoint = endpoints.nearest(**server)
    where = namespace or endpoint.namespace

    async def work(client: Client) -> tuple[Object, list[Object]]:
        job = await _found(client, name, where)
        about = Selection(fields=f"involvedObject.uid={meta.uid(job)}")
        return job, (await client.list(EVENTS, namespace=where, selection=about)).items

    job, events = session.at(endpoint, work)
    if as_json:
        output.document({"job": job, "events": events})
        return
    _show(job, events)


def _show(job: Object, events: list[Object]) -> None:
    status, spec, now = job.get("status") or {}, job["spec"], system.SystemClock().now()
    state = status.get("state") or {}
    total = sum(one.get("replicas") or 0 for one in spec.get("tasks") or ())
    facts = {
        "name": meta.name(job),
        "namespace": meta.namespace(job),
        "queue": spec.get("queue") or kinds.DEFAULT_QUEUE,
        "scheduler": spec.get("schedulerName") or kinds.SCHEDULER,
        "phase": phase_of(job),
        "why": state.get("message") or "",
        "minimum": f"{spec.get('minAvailable', 0)} of {total}",
        "retries": f"{status.get('retryCount', 0)} of {spec.get('maxRetry', 3)}",
        "plugins": ", ".join(spec.get("plugins") or ()),
        "ran for": status.get("runningDuration") or "",
        "phases": " -> ".join(one["status"] for one in status.get("conditions") or ()),
    }
    width = max(map(len, facts))
    for label, value in facts.items():
        if value:
            click.echo(output.printable(f"{label:<{width}}  {value}"))
    click.echo()
    counts: Mapping[str, Any] = status.get("taskStatusCount") or {}
    rows = []
    for task in spec.get("tasks") or ():
        phases = (counts.get(task["name"]) or {}).get("phase") or {}
        shown = ", ".join(f"{number} {phase}" for phase, number in sorted(phases.items())) or "-"
        after = ", ".join((task.get("dependsOn") or {}).get("name") or ()) or "-"
        rows.append([task["name"], str(task.get("replicas") or 0), str(task.get("minAvailable", 0)), after, shown])
    output.table(["TASK", "REPLICAS", "MIN", "AFTER", "PODS"], rows, right=("REPLICAS", "MIN"))
    latest = sorted(events, key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""))[-_LATEST:]
    if latest:
        click.echo()
        lines = [[age(one, now=now), one.get("reason") or "", one.get("message") or ""] for one in latest]
        output.table(["AGE", "REASON", "MESSAGE"], lines)


def change(*, verb: str, name: str, namespace: str, **server: Any) -> None:
    """Suspend, resume or delete a job."""
    endpoint = endpoints.own_cluster(**server)
    where = namespace or endpoint.namespace

    async def work(client: Client) -> str:
        job = await _found(client, name, where)
        if verb == "delete":
            await client.delete(kinds.JOBS, name, namespace=where, propagation=Propagation.BACKGROUND)
            return "deleted"
        phase = phase_of(job)
        if verb == "resume" and phase not in ("Aborted", "Aborting"):
            raise errors.UserError(f"job {name} is {phase}", "only a suspended job can be resumed")
        if verb == "suspend" and phase in ("Aborted", "Aborting", "Completed", "Failed", "Terminated"):
            raise errors.UserError(f"job {name} is {phase}", "only a job that waits or runs can be suspended")
        await client.create(kinds.COMMANDS, command(job, _COMMANDS[verb], "Job", where))
        return _DONE[verb]

    click.echo(f"job.batch.volcano.sh/{name} {session.at(endpoint, work)}")


def command(target: Object, action: str, kind: str, namespace: str) -> Object:
    """The Command that asks the controllers for an action."""
    about = {"apiVersion": target["apiVersion"], "kind": kind, "name": meta.name(target), "uid": meta.uid(target)}
    suffix = "".join(secrets.choice(_LETTERS) for _ in range(5))
    return {
        "apiVersion": f"{kinds.BUS}/v1alpha1",
        "kind": "Command",
        "metadata": {"name": f"{meta.name(target)}-{action.lower()}-{suffix}", "namespace": namespace},
        "action": action,
        "target": about,
    }


async def _found(client: Client, name: str, namespace: str) -> Object:
    try:
        return await client.get(kinds.JOBS, name, namespace=namespace)
    except api_errors.NotFound:
        raise errors.UserError(
            f"there is no batch job {name} in namespace {namespace}", "see 'rota job list -A'"
        ) from None
