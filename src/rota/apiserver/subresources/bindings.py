"""The three endpoints of `binder`: `pods/binding`, the `bindings` of a namespace, and `bindingbatches` for many.

A batch is posted to `/apis/rota.dev/v1alpha1/bindingbatches`:

    {"bindings": [{"metadata": {"namespace": "a", "name": "p"}, "target": {"name": "n1"}}, ...], "atomic": false}

The response is 201 and the batch again, with `verdicts` (one for each binding, in order: the response that this binding
alone would have got, as a Status) and `bound`, the number of bound pods. An atomic batch binds all of its pods or none,
in one transaction; one that exceeds a transaction (pods, and two for each node: no more than 126) is refused with 422.
Other batches of that size become several transactions.

With `seen`, resourceVersions by node, the criterion of conflicts is coarse for these nodes: a pod is refused if another
one was bound to its node since that version. The status of a bound pod has the version of its binding.
"""

from dataclasses import replace
from typing import Final

from rota.api import errors, fields
from rota.api.identifiers import GroupKind, GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver.interfaces import Object, Registry, Reply, SubresourceRequest
from rota.apiserver.subresources import binder
from rota.apiserver.subresources.binder import Binder, BindRequest

SUCCESS: Final[Object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
BATCHES: Final = ResourceType(
    group="rota.dev",
    version="v1alpha1",
    kind="BindingBatch",
    plural="bindingbatches",
    namespaced=False,
    verbs=("create",),
    model="rota_v1alpha1.BindingBatch",
)
_BATCH: Final = GroupKind("rota.dev", "BindingBatch")
_BINDING: Final = GroupKind("", "Binding")
_TARGETS: Final = ("", "Node")


class PodBinding:
    """POST of `pods/<name>/binding`, and of `bindings`, where the name is in the body only."""

    def __init__(self, binding: Binder) -> None:
        self._binder: Final = binding

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """Success, or the refusal."""
        at, body = request.at, request.body
        assert body is not None, "bindings are posted"
        name = (body.get("metadata") or {}).get("name", "")
        if at.name and name != at.name:
            raise errors.bad_request("name in URL does not match name in Binding object")
        found = _validate(body, fields.ROOT)
        if not name:
            found.insert(0, fields.required(fields.Path("metadata").child("name"), "name or generateName is required"))
        if found:
            raise errors.invalid(_BINDING, name, found)
        (verdict,) = await self._binder.bind(at, [_bind_request(body, at.namespace)], registry)
        if verdict is not None:
            raise verdict
        return Reply(object=dict(SUCCESS), code=201)


class BindingBatches:
    """POST of many bindings."""

    def __init__(self, binding: Binder) -> None:
        self._binder: Final = binding

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """The batch with its verdicts."""
        batch = request.body
        assert batch is not None, "batches are posted"
        bindings, atomic = batch.get("bindings") or [], bool(batch.get("atomic"))
        _refuse_malformed(bindings)
        seen = _seen(batch.get("seen") or {})
        bind_requests = [
            replace(_bind_request(one, one["metadata"]["namespace"]), seen=seen.get(one["target"]["name"]))
            for one in bindings
        ]
        if atomic and (keys := binder.most_keys(bind_requests)) > binder.MOST_KEYS:
            most = binder.MOST_KEYS
            why = f"an atomic batch has at most {most} keys (pods, and two for each node), this one has {keys}"
            raise errors.invalid(_BATCH, "", [fields.invalid(fields.Path("bindings"), len(bindings), why)])
        results = await self._binder.bind_at(request.at, bind_requests, registry, atomic=atomic)
        answer = {
            **batch,
            "bound": sum(verdict is None for verdict, _ in results),
            "verdicts": [
                {
                    "namespace": bind_request.namespace,
                    "name": bind_request.name,
                    "status": _bound_at(revision) if verdict is None else verdict.to_wire(),
                }
                for bind_request, (verdict, revision) in zip(bind_requests, results, strict=True)
            ],
        }
        return Reply(object=answer, code=201)


def _bound_at(revision: int) -> Object:
    """A success, with the revision of the binding unless it was a dry run."""
    return {**SUCCESS, "metadata": {"resourceVersion": str(revision)} if revision else {}}


def _seen(versions: Object) -> dict[str, int]:
    """By node, the revision up to which the scheduler knows it."""
    wrong = [(node, text) for node, text in versions.items() if not (isinstance(text, str) and text.isdecimal())]
    if wrong:
        path, why = fields.Path("seen"), "must be a resourceVersion, as lists and watches of pods have them"
        raise errors.invalid(_BATCH, "", [fields.invalid(path.key(node), text, why) for node, text in wrong])
    return {node: int(text) for node, text in versions.items()}


def _refuse_malformed(bindings: list[Object]) -> None:
    found: list[fields.FieldError] = []
    seen: set[tuple[str, str]] = set()
    for position, one in enumerate(bindings):
        path = fields.Path("bindings").index(position)
        metadata = one.get("metadata") or {}
        found += [
            fields.required(path.child("metadata", part)) for part in ("namespace", "name") if not metadata.get(part)
        ]
        found += _validate(one, path)
        who = (metadata.get("namespace", ""), metadata.get("name", ""))
        if who in seen:
            found.append(fields.duplicate(path.child("metadata", "name"), "/".join(who)))
        seen.add(who)
    if found:
        raise errors.invalid(_BATCH, "", found)


def _validate(binding: Object, path: fields.Path) -> list[fields.FieldError]:
    target, at = binding.get("target") or {}, path.child("target")
    found = []
    if target.get("kind", "") not in _TARGETS:
        found.append(fields.not_supported(at.child("kind"), target["kind"], ["Node", "<empty>"]))
    if not target.get("name"):
        found.append(fields.required(at.child("name")))
    return found


def _bind_request(binding: Object, namespace: str) -> BindRequest:
    metadata = binding["metadata"]
    return BindRequest(
        namespace=namespace,
        name=metadata["name"],
        node=binding["target"]["name"],
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
    )


#: The legacy resource; a binding can be posted there as well.
LEGACY: Final = GroupResource("", "bindings")
