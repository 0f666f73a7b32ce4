"""Creates, patches and deletes pods for controllers: with owner references, events and expectations.

    pods = PodControl(client, recorder=recorder, expectations=expectations, rng=rng)
    await pods.create(owner, from_template(owner, template), name_prefix=prefix(meta.name(owner)))
    expectations.settled(meta.uid(owner))  # False until the informer, whose handler calls `observe`, has shown it

Names are generated here and not by the server, so that a request that is retried creates one pod. Events have
upstream's reasons and messages (`pkg/controller/controller_utils.go`, 1.36). The controllers decide which pods there
should be.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api import errors, meta, names
from rota.api.meta import Object
from rota.client.events.recorder import EventRecorder
from rota.client.expectations import Expectations
from rota.client.informers.cache import Key
from rota.client.verbs import Client, PatchType
from rota.kit.backoff import Rng

PODS: Final = ("", "v1", "pods")
_NAMESPACE_ENDS: Final = "NamespaceTerminating"
#: Attempts to generate a name that is not taken.
_DRAWS: Final = 5


def from_template(owner: Object, template: Mapping[str, Any], *, name: str = "") -> dict[str, Any]:
    """A pod of a template, controlled by its owner."""
    made = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": meta.namespace(owner),
        "labels": dict(made.get("labels") or {}),
        "annotations": dict(made.get("annotations") or {}),
        "ownerReferences": [meta.controller_reference(owner)],
    }
    if made.get("finalizers"):
        metadata["finalizers"] = list(made["finalizers"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template.get("spec") or {})}


def prefix(owner_name: str) -> str:
    """The prefix of the names of an owner's pods."""
    dashed = f"{owner_name}-"
    return owner_name if names.check_generate_name("", "pods", dashed) else dashed


#: The event message of a creation or deletion (the verb), from the owner, the pod's name, and the error, if any.
Words: TypeAlias = Callable[[str, Object, str, Exception | None], str]


def usual_words(verb: str, _: Object, name: str, error: Exception | None) -> str:
    """The event message of most controllers."""
    stem = verb.removesuffix("e")
    return f"{stem.title()}ed pod: {name}" if error is None else f"Error {stem}ing: {error}"


class PodControl:
    """Writes of one controller's pods."""

    def __init__(
        self,
        client: Client,
        *,
        recorder: EventRecorder,
        expectations: Expectations,
        rng: Rng,
        words: Words = usual_words,
    ) -> None:
        self._client: Final = client
        self._recorder: Final = recorder
        self._expectations: Final = expectations
        self._rng: Final = rng
        self._words: Final = words

    async def create(self, owner: Object, pod: Object, *, name_prefix: str = "") -> Object | None:
        """Create a pod, with a generated name if `name_prefix` is given.

        Returns None if its namespace is terminating; any other refusal is recorded as an event of the owner, and
        raised.
        """
        for _ in range(_DRAWS):
            if name_prefix:
                drawn = names.generate(name_prefix, Draw(self._rng))
                pod = {**pod, "metadata": {**pod["metadata"], "name": drawn, "generateName": name_prefix}}
            key = Key(meta.namespace(pod), meta.name(pod))
            self._expectations.expect(meta.uid(owner), key)
            try:
                made = await self._client.create(PODS, pod)
            except errors.AlreadyExists:
                self._expectations.drop(key)  # the watch may have delivered it already
                found = await self._found(owner, key)
                if found is not None:
                    return found
                if not name_prefix:
                    raise
            except errors.ApiError as error:
                self._expectations.drop(key)
                if is_end_of_namespace(error):
                    return None
                self._recorder.event(owner, "Warning", "FailedCreate", self._words("create", owner, key.name, error))
                raise
            except BaseException:
                self._expectations.drop(key)
                raise
            else:
                self._expectations.confirm(key, made)
                self._recorder.event(owner, "Normal", "SuccessfulCreate", self._words("create", owner, key.name, None))
                return made
        raise errors.AlreadyExists(f"{_DRAWS} names for a pod of {meta.name(owner)} were taken")

    async def _found(self, owner: Object, key: Key) -> Object | None:
        """The pod with a name that is taken, if the owner controls it: created by a request whose answer was lost."""
        try:
            found = await self._client.get(PODS, key.name, namespace=key.namespace)
        except errors.NotFound:
            return None
        reference = meta.controller_of(found)
        return found if reference is not None and reference.get("uid") == meta.uid(owner) else None

    async def delete(self, owner: Object, pod: Object) -> bool:
        """Delete a pod, by uid; whether it still existed."""
        key = Key(meta.namespace(pod), meta.name(pod))
        self._expectations.expect(meta.uid(owner), key, of=pod, going=True)
        try:
            answer = await self._client.delete(PODS, key.name, namespace=key.namespace, uid=meta.uid(pod))
        except (errors.NotFound, errors.Conflict):
            self._expectations.drop(key)
            return False
        except errors.ApiError as error:
            self._expectations.drop(key)
            self._recorder.event(owner, "Warning", "FailedDelete", self._words("delete", owner, key.name, error))
            raise
        except BaseException:
            self._expectations.drop(key)
            raise
        self._expectations.confirm(key, answer)
        self._recorder.event(owner, "Normal", "SuccessfulDelete", self._words("delete", owner, key.name, None))
        return True

    async def change(self, owner: Object, pod: Object, metadata: Mapping[str, Any]) -> Object | None:
        """Patch a pod's metadata, by uid; None if it is gone."""
        key = Key(meta.namespace(pod), meta.name(pod))
        self._expectations.expect(meta.uid(owner), key, of=pod)
        try:
            changed = await self._client.patch(
                PODS,
                key.name,
                {"metadata": {"uid": meta.uid(pod), **metadata}},
                type=PatchType.STRATEGIC,
                namespace=key.namespace,
            )
        except (errors.NotFound, errors.Conflict):
            self._expectations.drop(key)
            return None
        except BaseException:
            self._expectations.drop(key)
            raise
        self._expectations.confirm(key, changed)
        return changed


@dataclass(frozen=True, slots=True)
class Started:
    """How many operations of a slow start succeeded, and the error that ended it."""

    done: int
    error: Exception | None = None


async def slow_start(count: int, one: Callable[[int], Awaitable[object]], *, first: int = 1) -> Started:
    """Run an operation `count` times in batches that double on success, so that a full quota is hit rarely."""
    done, size = 0, min(count, first)
    while size > 0:
        outcomes = await asyncio.gather(*(one(done + number) for number in range(size)), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        done += size - len(failures)
        for failure in failures:
            if not isinstance(failure, Exception):
                raise failure
            return Started(done, failure)
        size = min(2 * size, count - done)
    return Started(done)


def is_end_of_namespace(error: errors.ApiError) -> bool:
    """Whether the namespace is terminating, so that a retry is useless."""
    return any(cause.type == _NAMESPACE_ENDS for cause in error.causes)


class Draw:
    """The random source in the form that `names` takes."""

    def __init__(self, rng: Rng) -> None:
        self._rng: Final = rng

    def choice(self, seq: str, /) -> str:
        """One of several characters."""
        return seq[int(self._rng.random() * len(seq))]
