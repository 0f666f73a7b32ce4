"""`rota submit`: reads manifests, applies them on the server, and prints how to follow the tasks."""

import shlex
from typing import Any, Final

import click

from rota.api import errors as api_errors
from rota.api import meta
from rota.api.kinds import ResourceType
from rota.cli import endpoints, output
from rota.cli.commands import manifest_files, object_listing, resource_names, session
from rota.cli.commands.manifest_files import Document
from rota.cli.commands.resource_names import Kinds
from rota.client import object_apply
from rota.client.object_apply import Applied, Result
from rota.client.verbs import Client, Object
from rota.kit import errors, system

#: Kinds whose output can be followed by name.
_FOLLOWED: Final = frozenset({"Pod", "Job", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"})
#: The groups of the kinds whose output `rota logs` prints by their own name.
_OWN_LOGS: Final = frozenset({"", "apps", "batch"})
_COLOURS: Final = {Result.CREATED: "green", Result.CHANGED: "yellow", Result.UNCHANGED: None}
#: How long a newly defined kind may take until it is served.
_NEW_KIND_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.2


def submit(*, sources: tuple[str, ...], namespace: str, force: bool, dry_run: bool, form: str, **server: Any) -> None:
    """Submit all objects of the sources."""
    found = manifest_files.read(sources)
    if not found:
        raise errors.UserError(f"{', '.join(sources)}: nothing to submit")
    endpoint = endpoints.own_cluster(**server)

    async def work(client: Client) -> _Submission:
        submission = _Submission(
            client, namespace=namespace, default=endpoint.namespace, force=force, dry_run=dry_run, text=form == "text"
        )
        await submission.run(found)
        return submission

    done = session.at(endpoint, work)
    if form != "text":
        object_listing.show_objects(
            [one.obj for _, one in done.applied], form, single=len(found) == 1 and bool(done.applied)
        )
    if done.failed:
        raise errors.UserError(f"{done.failed} of {len(found)} objects could not be submitted")


class _Submission:
    """Submits objects, one after the other."""

    def __init__(self, client: Client, *, namespace: str, default: str, force: bool, dry_run: bool, text: bool) -> None:
        self._client = client
        self._namespace = namespace
        self._default = default
        self._force = force
        self._dry_run = dry_run
        self._text = text
        #: Whether a CustomResourceDefinition was submitted, whose kind may be served a moment later.
        self._defined = False
        self.applied: list[tuple[ResourceType, Applied]] = []
        self.failed = 0

    async def run(self, found: list[Document]) -> None:
        """Submit all, and print the result of each."""
        kinds = await resource_names.kinds(self._client)
        for document in found:
            try:
                if document.fault:
                    raise errors.UserError(document.fault)
                kinds = await self._submit(document, kinds)
            except errors.UserError as error:
                self._complain(document, str(error))
            except api_errors.Conflict as error:
                self._complain(document, f"{session.refusal(error)}; --force takes the fields over")
            except api_errors.ApiError as error:
                self._complain(document, session.refusal(error))
        if self._text and not self._dry_run:
            self._advise()

    async def _submit(self, document: Document, kinds: Kinds) -> Kinds:
        obj = document.obj
        kind = kinds.of_object(obj["apiVersion"], obj["kind"])
        if kind is None and self._defined:
            kinds = await self._served(obj)
            kind = kinds.of_object(obj["apiVersion"], obj["kind"])
        if kind is None:
            raise errors.UserError(f"the server has no kind {obj['kind']} of {obj['apiVersion']}")
        placed = self._placed(obj, kind)
        done = await object_apply.apply(self._client, kind, placed, force=self._force, dry_run=self._dry_run)
        self.applied.append((kind, done))
        self._defined |= kind.kind == "CustomResourceDefinition" and not self._dry_run
        if self._text:
            name = resource_names.shown(kind, meta.name(done.obj))
            tried = " (dry run)" if self._dry_run else ""
            click.echo(f"{name} {output.painted(done.result.value, fg=_COLOURS[done.result])}{tried}")
        return kinds

    async def _served(self, obj: Object) -> Kinds:
        """The kinds once they include an object's kind, or after a timeout."""
        clock = system.SystemClock()
        deadline = clock.monotonic() + _NEW_KIND_S
        while True:
            kinds = await resource_names.kinds(self._client)
            if kinds.of_object(obj["apiVersion"], obj["kind"]) is not None or clock.monotonic() > deadline:
                return kinds
            await clock.sleep(_LOOK_AGAIN_S)

    def _placed(self, obj: Object, kind: ResourceType) -> Object:
        """The object with its namespace."""
        if not kind.namespaced:
            return obj
        own = meta.namespace(obj)
        if own and self._namespace and own != self._namespace:
            raise errors.UserError(f"is of namespace {own}, not {self._namespace}", "leave one of the two out")
        where = own or self._namespace or self._default
        return {**obj, "metadata": {**meta.metadata(obj), "namespace": where}}

    def _complain(self, document: Document, why: str) -> None:
        self.failed += 1
        click.echo(f"rota: {document.where}: {output.printable(' '.join(why.split()))}", err=True)

    def _advise(self) -> None:
        """Print how to follow the submitted tasks. The server has warned about kinds that no controller handles."""
        for kind, one in self.applied:
            if kind.kind in _FOLLOWED and kind.group in _OWN_LOGS and one.result is not Result.UNCHANGED:
                name = meta.name(one.obj) if kind.kind == "Pod" else f"{kind.singular}/{meta.name(one.obj)}"
                where = meta.namespace(one.obj)
                option = f" -n {shlex.quote(where)}" if where != self._default else ""
                output.note(f"follow it: rota logs -f {name}{option}")
