"""`rota pipeline`: starts, changes, lists and draws runs."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from rota.api import errors as api_errors
from rota.api import fields, meta
from rota.api.pipelines import diagrams, graphs, object_names, pipeline_validation
from rota.cli import endpoints, output
from rota.cli.commands import manifest_files, object_listing, pipeline_progress, session
from rota.cli.commands.pipeline_progress import PIPELINES, RUNS, STEP_RUNS
from rota.client.verbs import Client, Object
from rota.kit import errors

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_CHANGES: Final[Mapping[str, Mapping[str, Any]]] = {
    "cancel": {"cancel": True},
    "suspend": {"suspend": True},
    "resume": {"suspend": None},
}
#: The number of errors of a file that are printed.
_FAULTS: Final = 5
_DONE: Final = {"cancel": "is being cancelled", "suspend": "begins nothing new", "resume": "goes on"}


def run(
    *,
    what: str,
    parameters: tuple[str, ...],
    name: str,
    watch: bool,
    namespace: str,
    as_json: bool,
    **server: Any,
) -> None:
    """Start a run, and follow it if requested."""
    values = [_parameter(text) for text in parameters]
    given = _of_file(what)
    endpoint = endpoints.own_cluster(**server)
    where = _namespace(given, namespace) or endpoint.namespace

    async def work(client: Client) -> Object:
        pipeline = meta.name(given) if given is not None else what
        if given is not None:
            placed = {**given, "metadata": {**meta.metadata(given), "namespace": where}}
            known = await client.apply(PIPELINES, placed, field_manager="rota", force=True)
        else:
            known = await _submitted(client, what, where)
        # The run would fail with the same error, but later and unseen.
        wrong = pipeline_validation.check_values(known["spec"], values, fields.Path("parameters"))
        if wrong:
            raise errors.UserError(f"{pipeline}: {'; '.join(map(str, wrong[:_FAULTS]))}")
        chosen = name or f"{pipeline}-{''.join(secrets.choice(_LETTERS) for _ in range(5))}"
        labels = {object_names.PIPELINE_LABEL: object_names.label(pipeline)}
        made = {
            "apiVersion": "rota.dev/v1alpha1",
            "kind": "PipelineRun",
            "metadata": {"name": chosen, "namespace": where, "labels": labels},
            "spec": {"pipeline": pipeline, **({"parameters": values} if values else {})},
        }
        return await client.create(RUNS, made)

    made = session.at(endpoint, work)
    if watch:
        pipeline_progress.follow(endpoint, meta.name(made), where)
    elif as_json:
        output.document(made)
    else:
        click.echo(f"pipelinerun/{meta.name(made)} begun")
        output.note(f"follow it with: rota pipeline get {meta.name(made)} --watch")


async def _submitted(client: Client, name: str, namespace: str) -> Object:
    """A pipeline of the cluster, by name."""
    try:
        return await client.get(PIPELINES, name, namespace=namespace)
    except api_errors.NotFound:
        raise errors.UserError(
            f"there is no pipeline {name} in namespace {namespace}", "name a file, or see 'rota get pipelines'"
        ) from None


def list_(*, pipeline: str, namespace: str, everywhere: bool, as_json: bool, **server: Any) -> None:
    """List runs, latest first."""
    endpoint = endpoints.nearest(**server)

    async def work(client: Client) -> list[Object]:
        where = "" if everywhere else namespace or endpoint.namespace
        found = (await client.list(RUNS, namespace=where)).items
        return [one for one in found if not pipeline or one["spec"].get("pipeline") == pipeline]

    found = session.at(endpoint, work)
    found.sort(key=lambda one: meta.metadata(one).get("creationTimestamp") or "", reverse=True)
    if as_json:
        output.document(found)
    elif not found:
        output.note("there are no runs")
    else:
        rows = [pipeline_progress.summary(one, everywhere=everywhere) for one in found]
        head = ["NAME", "PIPELINE", "STATUS", "DONE", "DURATION", "MESSAGE"]
        output.table(["NAMESPACE", *head] if everywhere else head, rows)


def get(*, name: str, watch: bool, namespace: str, as_json: bool, **server: Any) -> None:
    """Show a run with its steps, or all runs without a name."""
    if not name:
        form = "json" if as_json else "table"
        object_listing.get(
            words=("pipelineruns",), namespace=namespace, everywhere=False, labels="", fields="", form=form,
            show_labels=False, watch=watch, **server,
        )  # fmt: skip
        return
    endpoint = endpoints.nearest(**server)
    where = namespace or endpoint.namespace
    if watch and not as_json:
        pipeline_progress.follow(endpoint, name, where)
        return

    async def work(client: Client) -> pipeline_progress.Seen:
        return await pipeline_progress.seen(client, name, where)

    found = session.at(endpoint, work)
    if as_json:
        output.document({"run": found.run, "steps": list(found.steps)})
    else:
        pipeline_progress.show(found)


def logs(*, name: str, step: str, follow: bool, namespace: str, **server: Any) -> None:
    """Print the output of steps."""
    endpoint = endpoints.nearest(**server)
    where = namespace or endpoint.namespace
    session.at(endpoint, lambda client: pipeline_progress.print_logs(client, name, where, step=step, follow=follow))


def change(*, verb: str, name: str, namespace: str, **server: Any) -> None:
    """Cancel, retry, suspend or resume a run."""
    endpoint = endpoints.own_cluster(**server)
    where = namespace or endpoint.namespace

    async def work(client: Client) -> str:
        found = await client.get(RUNS, name, namespace=where)
        phase = (found.get("status") or {}).get("phase") or "Pending"
        over = phase in pipeline_progress.OVER
        if verb == "retry":
            if not over or phase == "Succeeded":
                raise errors.UserError(f"{name} is {phase}", "only what failed or was cancelled is tried again")
            number = (found["spec"].get("retry") or 0) + 1
            await client.patch(RUNS, name, {"spec": {"retry": number, "cancel": None}}, namespace=where)
            return "is tried again"
        if over:
            raise errors.UserError(f"{name} is over: {phase}", "begin another with rota pipeline run")
        await client.patch(RUNS, name, {"spec": _CHANGES[verb]}, namespace=where)
        return _DONE[verb]

    click.echo(f"pipelinerun/{name} {session.at(endpoint, work)}")


def graph(*, what: str, svg: bool, namespace: str, **server: Any) -> None:
    """Print the dependencies between steps."""
    given = _of_file(what)
    spec: Mapping[str, Any]
    states: dict[str, str]
    if given is not None:
        spec, states = _sound(given, what), {}
    else:
        endpoint = endpoints.nearest(**server)
        where = namespace or endpoint.namespace
        spec, states = session.at(endpoint, lambda client: _drawn(client, what, where))
    known = graphs.graph([*(spec.get("steps") or ()), *(spec.get("onExit") or ())])
    last = {step["name"] for step in spec.get("onExit") or ()}
    if svg:
        click.echo(diagrams.svg(known, states, last=last))
    else:
        click.echo("\n".join(map(output.printable, diagrams.text(known, states, last=last))))


async def _drawn(client: Client, name: str, namespace: str) -> tuple[Mapping[str, Any], dict[str, str]]:
    """The steps of a run with their states, or of a pipeline."""
    try:
        found = await client.get(RUNS, name, namespace=namespace)
    except api_errors.NotFound:
        return (await client.get(PIPELINES, name, namespace=namespace))["spec"], {}
    steps = (await client.list(STEP_RUNS, namespace=namespace, selection=pipeline_progress.of_run(name))).items
    phases: dict[str, list[str]] = {}
    for one in steps:
        phases.setdefault(one["spec"]["step"], []).append((one.get("status") or {}).get("phase") or "Waiting")
    spec = (found.get("status") or {}).get("spec") or found["spec"].get("pipelineSpec") or {}
    return spec, {step: diagrams.outcome(known) for step, known in phases.items()}


def _of_file(what: str) -> Object | None:
    """The pipeline in a file; None if the argument is a name."""
    if what != "-" and not Path(what).exists() and not what.endswith((".yaml", ".yml", ".json")):
        return None
    found = manifest_files.read([what])
    wrong = next((one for one in found if one.fault), None)
    if wrong is not None:
        raise errors.UserError(f"{wrong.where} {wrong.fault}")
    pipelines = [one.obj for one in found if one.obj.get("kind") == "Pipeline"]
    if len(pipelines) != 1:
        raise errors.UserError(f"{what} holds {len(pipelines)} pipelines", "name a file with one of kind Pipeline")
    if not meta.name(pipelines[0]):
        raise errors.UserError(f"the pipeline in {what} has no name", "give it metadata.name")
    return pipelines[0]


def _sound(pipeline: Object, where: str) -> Mapping[str, Any]:
    """The validated spec of a pipeline that no server has checked yet."""
    spec = pipeline.get("spec")
    groups = [spec.get("steps") or [], spec.get("onExit") or []] if isinstance(spec, Mapping) else [None]
    if not all(isinstance(group, list) and all(map(_is_step, group)) for group in groups):
        remedy = "a step is an object with a name, a template or job, and dependsOn with a list of names"
        raise errors.UserError(f"{where}: what is in spec are no steps", remedy)
    wrong = pipeline_validation.check(spec or {}, fields.Path("spec"))
    if wrong:
        raise errors.UserError(f"{where}: {'; '.join(map(str, wrong[:_FAULTS]))}")
    return spec or {}


def _is_step(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("name"), str) and _is_list(value.get("dependsOn"))


def _is_list(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def _namespace(given: Object | None, chosen: str) -> str:
    """The namespace of the pipeline in a file, and of its run; empty if none is given."""
    written = (meta.metadata(given).get("namespace") or "") if given is not None else ""
    if chosen and written and chosen != written:
        raise errors.UserError(f"the file says namespace {written}, and not {chosen}", "leave out one of them")
    return chosen or written


def _parameter(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"-p {text}: write NAME=VALUE")
    return {"name": name, "value": value}
