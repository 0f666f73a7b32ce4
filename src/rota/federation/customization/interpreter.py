"""Answers questions about objects: by users' rules in order, then by the native table, then by the generic reading."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.client.informers import shared_decoding
from rota.client.informers.cache import Cache, Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source as Collection
from rota.client.verbs import Client
from rota.federation import kinds
from rota.federation.customization import entry_points, lua_scripts
from rota.federation.customization.lua_processes import LuaProcesses
from rota.federation.customization.lua_scripts import LuaScripts
from rota.federation.customization.operations import Operation, Question, Source
from rota.federation.customization.webhooks import Webhooks
from rota.federation.interpreters import detailed, generic, native, replicas, statuses
from rota.kit import tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

Object: TypeAlias = Mapping[str, Any]
Kind: TypeAlias = tuple[str, str]


def _opaque(kind: Kind) -> generic.ScalePaths | None:
    return None


class Interpreter:
    """Rules for all kinds. Every method raises `CannotInterpret` if a user's rule fails."""

    def __init__(
        self,
        sources: Sequence[Source] = (),
        *,
        reads_unknown: bool = False,
        in_detail: bool = False,
        scale_paths: Callable[[Kind], generic.ScalePaths | None] = _opaque,
    ) -> None:
        """With `reads_unknown`, kinds without a rule are read generically; `scale_paths` knows their replicas.

        With `in_detail`, statuses of StatefulSets, Pods and claims are kept in full.
        """
        self._in_detail: Final = in_detail
        self._handlers: Final[list[Callable[[Kind], None]]] = []
        self._sources: Final = tuple(sources)
        self._reads_unknown: Final = reads_unknown
        self._scale_paths: Final = scale_paths

    def on_change(self, handler: Callable[[Kind], None]) -> None:
        """Call a handler with each kind for which rules changed."""
        self._handlers.append(handler)

    def changed(self, kind: Kind) -> None:
        """The rules for a kind have changed."""
        for handler in self._handlers:
            handler(kind)

    async def _asked(self, question: Question) -> tuple[bool, Any]:
        for source in self._sources:
            found = await source.ask(question)
            if found is not None:
                return True, found.value
        return False, None

    async def replicas(self, obj: Object) -> tuple[int, dict[str, Any] | None] | None:
        """Replicas and what each needs; None if the object is no workload."""
        answered, value = await self._asked(Question(operation=Operation.REPLICAS, object=obj))
        if answered:
            count, needed = value
            return int(count), needed
        read = native.REPLICAS.get(native.kind_of(obj))
        if read is not None:
            return read(obj)
        paths = self._scale_paths(native.kind_of(obj)) if self._reads_unknown else None
        return None if paths is None else generic.replicas_of(obj, paths)

    async def components(self, obj: Object) -> list[dict[str, Any]] | None:
        """The parts of a workload with several pod templates; None if no rule tells them apart."""
        answered, value = await self._asked(Question(operation=Operation.COMPONENTS, object=obj))
        return list(value) if answered else None

    async def revised(self, obj: Object, count: int) -> dict[str, Any]:
        """The object with another number of replicas."""
        answered, value = await self._asked(Question(operation=Operation.REVISION, object=obj, replicas=count))
        if answered:
            return dict(value)
        member = native.REVISED.get(native.kind_of(obj))
        if member is not None:
            return replicas.revised(obj, count, member)
        paths = self._scale_paths(native.kind_of(obj)) if self._reads_unknown else None
        return dict(obj) if paths is None else generic.revised(obj, paths, count)

    async def retained(self, desired: Object, observed: Object) -> dict[str, Any]:
        """The desired object with what the member has decided itself."""
        question = Question(operation=Operation.RETENTION, object=desired, observed=observed)
        answered, value = await self._asked(question)
        if answered:
            return dict(value)
        retain = native.RETAINED.get(native.kind_of(desired))
        return dict(desired) if retain is None else retain(desired, observed)

    def pods_for_status(self, obj: Object) -> Object | None:
        """The selector of pods that `status` wants to see; None if it wants none."""
        return detailed.selector_of(obj) if self._in_detail else None

    async def status(self, obj: Object, pods: Sequence[Object] = ()) -> dict[str, Any] | None:
        """The part of a member's status that goes to the control plane."""
        answered, value = await self._asked(Question(operation=Operation.STATUS, object=obj))
        if answered:
            return dict(value)
        with contextlib.suppress(statuses.NotReadable):
            if self._in_detail and native.kind_of(obj) == detailed.STATEFUL_SET:
                return detailed.stateful_set_status(obj, pods)
            return native.collected_status(obj)
        return None

    async def health(self, obj: Object) -> bool | None:
        """Whether an object in a member is healthy; None if no rule says so."""
        answered, value = await self._asked(Question(operation=Operation.HEALTH, object=obj))
        if answered:
            return bool(value)
        judge = native.HEALTH.get(native.kind_of(obj))
        if judge is not None:
            return judge(obj)
        return generic.healthy(obj) if self._reads_unknown else None

    async def aggregated(self, obj: Object, items: Sequence[Object], now: str) -> Object | None:
        """The status of a template by what members report; None if no rule makes one."""
        answered, value = await self._asked(Question(operation=Operation.AGGREGATION, object=obj, items=items))
        if answered:
            return value.get("status")  # type: ignore[no-any-return]
        in_full = detailed.AGGREGATED.get(native.kind_of(obj)) if self._in_detail else None
        if in_full is not None:
            return in_full(obj, items, now)
        aggregate = native.AGGREGATED.get(native.kind_of(obj))
        if aggregate is not None:
            return aggregate(obj, items, now)
        return generic.aggregated(obj, items, now) if self._reads_unknown else None

    async def dependencies(self, obj: Object) -> list[dict[str, Any]]:
        """What the object needs beside it."""
        answered, value = await self._asked(Question(operation=Operation.DEPENDENCIES, object=obj))
        if answered:
            return list(value)
        find = native.DEPENDENCIES.get(native.kind_of(obj))
        return [] if find is None else find(obj)


#: Only the native kinds.
NATIVE: Final = Interpreter()


@contextlib.asynccontextmanager
async def following(
    client: Client, *, clock: Clock, rng: Rng, reads_unknown: bool = False, in_detail: bool = False
) -> AsyncIterator[Interpreter]:
    """An interpreter that follows the customizations of a control plane, once it knows those that exist."""
    followed: list[Informer[Object]] = []

    def follow(target: kinds.Target) -> Cache[Object]:
        informer = Informer[Object](
            Collection(client=client, target=target, namespace=""),
            decode=shared_decoding.shared,
            clock=clock,
            rng=rng,
        )
        followed.append(informer)
        return informer.cache

    customizations = follow(kinds.CUSTOMIZATIONS)
    configurations = follow(kinds.INTERPRETER_WEBHOOKS)
    known: dict[str, Any] = {"rules": {}, "interpreter": None}

    def changed(key: Key, old: Object | None, new: Object | None) -> None:
        known["rules"] = lua_scripts.rules(customizations.values())
        for one in filter(None, (old, new)):
            target = (one.get("spec") or {}).get("target") or {}
            if known["interpreter"] is not None:
                known["interpreter"].changed((target.get("apiVersion") or "", target.get("kind") or ""))

    followed[0].add_handler(changed)
    definitions = follow(kinds.DEFINITIONS) if reads_unknown else None

    def scale_paths(kind: Kind) -> generic.ScalePaths | None:
        group, _, version = kind[0].rpartition("/")
        for definition in definitions.values() if definitions is not None else ():
            spec = definition.get("spec") or {}
            if spec.get("group") == group and (spec.get("names") or {}).get("kind") == kind[1]:
                return generic.scale_paths(definition, version)
        return None

    processes, webhooks = LuaProcesses(clock=clock), Webhooks(lambda: list(configurations.values()))
    rules = entry_points.PythonRules(entry_points.load())
    try:
        async with tasks.Supervisor("interpreter", clock=clock, rng=rng) as running:
            for number, informer in enumerate(followed):
                running.start(f"informer {number}", informer.run)
            for informer in followed:
                await informer.wait_synced()
            known["interpreter"] = found = Interpreter(
                (LuaScripts(lambda: known["rules"], processes), webhooks, rules),
                reads_unknown=reads_unknown,
                in_detail=in_detail,
                scale_paths=scale_paths,
            )
            yield found
    finally:
        await processes.close()
        await webhooks.close()
