"""All extenders of a scheduler, called together by kube-scheduler's rules.

Filter and preempt go from one extender to the next, each with the nodes that the previous one left. Prioritize calls
run concurrently. A failing extender fails the attempt unless it is ignorable; a failed prioritize counts as no score in
either case. Results are values: an extender's failure raises nothing here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rota.kit import logs
from rota.scheduler.extenders.extender_interface import PLUGIN, SCALE, Document, Extender, ExtenderError
from rota.scheduler.framework.status import SKIP, SUCCESS, Code, Status
from rota.scheduler.preemption.victims import Candidate

log = logs.get(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainResult:
    """The nodes that all extenders accepted, and why the others were refused."""

    feasible: tuple[str, ...]
    #: By node, with `PLUGIN` as the plugin.
    refusals: Mapping[str, Status] = field(default_factory=dict)
    #: By node, which extender refused it.
    refused_by: Mapping[str, str] = field(default_factory=dict)
    #: Set if an extender that is not ignorable failed; then no node is feasible.
    failure: Status | None = None


class ExtenderChain:
    """The extenders in the order of their calls. An empty chain costs nothing and is false."""

    def __init__(self, extenders: Sequence[Extender] = ()) -> None:
        self.extenders: Final = tuple(extenders)

    def __bool__(self) -> bool:
        return bool(self.extenders)

    def filters(self, pod: Document) -> bool:
        """Whether any extender filters nodes for this pod."""
        return any(each.is_filter and each.interested(pod) for each in self.extenders)

    def prioritizes(self, pod: Document) -> bool:
        """Whether any extender scores nodes for this pod."""
        return any(each.is_prioritizer and each.interested(pod) for each in self.extenders)

    def preempts(self, pod: Document) -> bool:
        """Whether any extender takes part in preemption for this pod."""
        return any(each.supports_preemption and each.interested(pod) for each in self.extenders)

    async def filter(self, pod: Document, nodes: Sequence[str]) -> ChainResult:
        """Let every interested extender remove nodes; ends early when none is left."""
        left = tuple(nodes)
        refusals: dict[str, Status] = {}
        refused_by: dict[str, str] = {}
        for extender in self.extenders:
            if not left:
                break
            if not extender.is_filter or not extender.interested(pod):
                continue
            try:
                verdict = await extender.filter(pod, left)
            except ExtenderError as error:
                if extender.ignorable:
                    _leave_out(error, "filter")
                    continue
                return ChainResult(feasible=(), refusals=refusals, refused_by=refused_by, failure=_failure(error))
            kept = set(verdict.feasible)
            for name in left:
                if name not in kept:
                    refused_by[name] = extender.name
                    refusals[name] = _refusal(
                        extender.name, failed=verdict.failed.get(name), unresolvable=verdict.unresolvable.get(name)
                    )
            left = tuple(name for name in left if name in kept)
        return ChainResult(feasible=left, refusals=refusals, refused_by=refused_by)

    async def prioritize(self, pod: Document, nodes: Sequence[str]) -> dict[str, int]:
        """Add up all scores, weighted and scaled to plugins' scores; nodes without a score are absent."""
        raters = [each for each in self.extenders if each.is_prioritizer and each.interested(pod)]
        answers = await asyncio.gather(*(each.prioritize(pod, nodes) for each in raters), return_exceptions=True)
        known = set(nodes)
        totals: dict[str, int] = {}
        for extender, answer in zip(raters, answers, strict=True):
            if isinstance(answer, ExtenderError):
                _leave_out(answer, "prioritize")
            elif isinstance(answer, BaseException):
                raise answer
            else:
                for name, score in answer.items():
                    if name in known:
                        totals[name] = totals.get(name, 0) + score * extender.weight * SCALE
        return totals

    async def preempt(self, pod: Document, candidates: Sequence[Candidate]) -> Sequence[Candidate] | Status:
        """Let every interested extender choose among the candidates that the previous one left."""
        left: Sequence[Candidate] = candidates
        for extender in self.extenders:
            if not left:
                break
            if not extender.supports_preemption or not extender.interested(pod):
                continue
            try:
                chosen = await extender.preempt(pod, left)
                if not extender.ignorable:
                    _check_victims(extender.name, chosen)
            except ExtenderError as error:
                if extender.ignorable:
                    _leave_out(error, "preempt")
                    continue
                return _failure(error)
            left = [candidate for candidate in chosen if candidate.victims]
        return left

    def binder(self, pod: Document) -> Extender | None:
        """The extender that binds this pod, if any."""
        return next((each for each in self.extenders if each.is_binder and each.interested(pod)), None)

    async def bind(self, pod: Document, node: str) -> Status:
        """Bind through an extender; `SKIP` if none binds the pod or an ignorable one failed: then Bind plugins run."""
        extender = self.binder(pod)
        if extender is None:
            return SKIP
        try:
            await extender.bind(pod, node)
        except ExtenderError as error:
            if extender.ignorable:
                _leave_out(error, "bind")
                return SKIP
            return _failure(error)
        return SUCCESS

    async def close(self) -> None:
        """Close every extender."""
        for extender in self.extenders:
            await extender.close()


def _refusal(extender: str, *, failed: str | None, unresolvable: str | None) -> Status:
    if unresolvable is not None:
        return Status(Code.UNRESOLVABLE, (unresolvable,), PLUGIN)
    if failed is not None:
        return Status(Code.UNSCHEDULABLE, (failed,), PLUGIN)
    # The extender did not say that evictions would help, so none is tried.
    return Status(Code.UNRESOLVABLE, (f"node(s) left out by extender {extender}",), PLUGIN)


def _failure(error: ExtenderError) -> Status:
    return Status(Code.ERROR, (str(error),), PLUGIN, error)


def _check_victims(extender: str, chosen: Sequence[Candidate]) -> None:
    for candidate in chosen:
        if not candidate.victims:
            raise ExtenderError(extender, f"names no victim on node {candidate.node_name}; leave the node out instead")


def _leave_out(error: ExtenderError, step: str) -> None:
    log.warning("extender left out", extender=error.extender, step=step, problem=error.problem)
