"""Refusals that hold for equal pods until something changes, so that many waiting pods cost one search for room.

A refusal depends on the pod's shape and on the cluster. While neither a row nor an object of the catalog has changed,
the next pod of the same shape is refused for the same reason. Kept are refusals by plugins alone: no nominated pods, no
extenders, no victims, and only PostFilter plugins that declare `refuses_by_shape`.
"""

from collections.abc import Callable
from typing import NamedTuple

from rota.columns.pods import PodInfo, PodShape
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.hints.hint_text import Hints
from rota.scheduler.status import fit_errors
from rota.scheduler.status.fit_errors import FitError

#: Shapes whose refusal is kept.
_MOST = 1024


class _Known(NamedTuple):
    evaluation: Evaluation
    generation: int
    catalog_generation: int
    make_room: bool
    refusal: FitError


class KnownRefusals:
    """The last refusal of each shape."""

    __slots__ = ("_hints", "_known")

    def __init__(self) -> None:
        self._known: dict[PodShape, _Known] = {}
        self._hints = Hints()

    def of(
        self, evaluation: Evaluation, pod: PodInfo, ask: Callable[[], FitError], *, make_room: bool, shared: bool
    ) -> FitError:
        """Why the pod gets no node, with a hint: known, if equal pods may share it (`shared`), or by asking."""
        known = self._find(evaluation, pod, make_room=make_room) if shared else None
        if known is not None:
            return known
        refusal = fit_errors.with_hint(ask(), self._hints.of(evaluation))
        if shared:
            self._keep(evaluation, pod, refusal, make_room=make_room)
        return refusal

    def _find(self, evaluation: Evaluation, pod: PodInfo, *, make_room: bool) -> FitError | None:
        """The refusal of an equal pod, if nothing has changed since."""
        known = self._known.get(pod.shape)
        if known is None or pod.nominated_node:
            return None
        cluster = evaluation.cluster
        unchanged = (
            known.evaluation is evaluation
            and known.generation == cluster.change_log.generation
            and known.catalog_generation == cluster.catalog.generation
            and known.make_room is make_room
        )
        return known.refusal if unchanged else None

    def _keep(self, evaluation: Evaluation, pod: PodInfo, refusal: FitError, *, make_room: bool) -> None:
        """Keep a refusal for equal pods, if it holds for them."""
        room = refusal.room
        if refusal.error or refusal.pending or pod.nominated_node:
            return
        if room is not None and (room.victims or room.nominated_node or room.candidates):
            return
        plugins = evaluation.framework.at(ExtensionPoint.POST_FILTER) if make_room else ()
        if not all(getattr(plugin, "refuses_by_shape", False) for plugin in plugins):
            return
        if len(self._known) >= _MOST:
            self._known.clear()
        cluster = evaluation.cluster
        self._known[pod.shape] = _Known(
            evaluation, cluster.change_log.generation, cluster.catalog.generation, make_room, refusal
        )
