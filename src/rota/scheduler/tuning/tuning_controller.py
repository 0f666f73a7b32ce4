"""The controller of TuningProposals: the leader puts approved ones into force step by step, and takes them back.

`proposals` decides; this module reads the ClusterState of all nodes, writes the status, and writes events. A status is
written before any scheduler uses its values. A leader that dies continues where its status says.
"""

from typing import Final

from rota.api import errors, meta
from rota.api.meta import Object
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client
from rota.forecast.cluster_state_objects import CLUSTER_STATES, WHOLE
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.scheduler.plugin_registry.configuration_source import LiveConfiguration
from rota.scheduler.tuning import live_figures, proposals, tuning_follower
from rota.scheduler.tuning.proposals import PROPOSALS, Surroundings

log = logs.get(__name__)

_AGAIN_S: Final = 1.0


class TuningController:
    """Writes the status of every TuningProposal."""

    def __init__(
        self,
        client: Client,
        configuration: LiveConfiguration,
        *,
        clock: Clock,
        rng: Rng,
        metrics: Metrics | None = None,
    ) -> None:
        self._client: Final = client
        self._configuration: Final = configuration
        self._clock: Final = clock
        self.metrics: Final = metrics or Metrics("tuning")
        self._ends: Final = self.metrics.counter("proposals_total", "Proposals by the phase they reached.", ("phase",))
        # One worker: two proposals of a profile must not begin at once.
        self._frame: Final = Reconciler[str](
            client, "tuning", self._process, clock=clock, rng=rng, workers=1, metrics=self.metrics
        )
        self._proposals: Final = self._frame.follow(PROPOSALS, self._changed)
        self._states: Final = self._frame.follow(CLUSTER_STATES, lambda *_: None)
        self._recorder: Final = self._frame.report_as("rota-tuning")

    async def run(self) -> None:
        """Run until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or new.get("spec") != old.get("spec")):
            self._frame.queue.add(key.name)
        if proposals.phase(old or {}) in proposals.ON_TRIAL and (
            new is None or proposals.phase(new) not in proposals.ON_TRIAL
        ):
            # Another one of the profile may begin.
            for one in self._proposals.cache.values():
                self._frame.queue.add(meta.name(one))

    async def _process(self, name: str) -> float | None:
        if self._proposals.cache.get(name) is None:
            return None
        # From the server: a decision on an older status would repeat a step or forget a reading.
        try:
            known = (await self._client.list(PROPOSALS)).items
        except errors.NotFound:
            return None
        proposal = next((one for one in known if meta.name(one) == name), None)
        if proposal is None:
            return None
        others = [one for one in known if meta.name(one) != name]
        now = self._clock.now()
        rival = next(
            (
                meta.name(one)
                for one in others
                if proposals.phase(one) in proposals.ON_TRIAL
                and proposals.scheduler_name(one) == proposals.scheduler_name(proposal)
                and not meta.is_deleting(one)
            ),
            "",
        )
        turn = proposals.turn(
            proposal,
            Surroundings(
                now=now,
                reading=live_figures.read(self._states.cache.get(WHOLE), now=now),
                others=tuning_follower.overlaid(self._configuration.base, others),
                on_trial=rival,
            ),
        )
        if turn.status is None:
            return turn.wait_s
        try:
            await self._client.update(PROPOSALS, {**proposal, "status": turn.status}, subresource="status")
        except errors.NotFound:
            return None
        except errors.Conflict:
            # The spec has changed meanwhile; the next turn decides again.
            return _AGAIN_S
        if turn.status["phase"] != proposals.phase(proposal):
            self._ends.labels(turn.status["phase"]).inc()
        if turn.event is not None:
            reason, message = turn.event
            about = {"apiVersion": "rota.dev/v1alpha1", "kind": "TuningProposal", "metadata": proposal["metadata"]}
            against = turn.status["phase"] in {proposals.ROLLED_BACK, proposals.REFUSED}
            self._recorder.event(about, "Warning" if against else "Normal", reason, message, action="Tuning")
            log.warning("tuning proposal", proposal=name, phase=turn.status["phase"], why=message)
        # A wait of zero is the next turn; the queue takes a key with a delay only.
        return turn.wait_s if turn.wait_s is None else max(turn.wait_s, 0.01)
