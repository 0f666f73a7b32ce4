"""The loop of a worker that sells reclaimed capacity: each second it sets the quota of batch pods, lets throttled
containers burst, and evicts batch pods if it has to."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from rota.api import quantities, reclaimed
from rota.kit import logs
from rota.kit.clock import Clock
from rota.worker.colocation import bursts, offers
from rota.worker.colocation.bursts import BurstSettings
from rota.worker.colocation.evictions import BatchPod, Condition, Evictions, EvictionSettings
from rota.worker.colocation.measurements import Measurements, Sample
from rota.worker.colocation.offers import Offers, OfferSettings
from rota.worker.colocation.quota import QuotaController, QuotaSettings
from rota.worker.host_resources import HostResources
from rota.worker.pod_machine.pods import Pod
from rota.worker.runtimes import batch_tier
from rota.worker.runtimes.runtime_interface import Place, Runtime, parse_run_id
from rota.worker.usage import read_counters

log = logs.get(__name__)

EVERY_S: Final = 1.0
_OFFER_EVERY_S: Final = 5.0
#: Bursts read a file of each container, so they are rarer.
_BURST_EVERY_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ColocationSettings:
    """The settings of all parts."""

    offers: OfferSettings = field(default_factory=OfferSettings)
    quota: QuotaSettings = field(default_factory=QuotaSettings)
    bursts: BurstSettings = field(default_factory=BurstSettings)
    evictions: EvictionSettings = field(default_factory=EvictionSettings)

    @classmethod
    def below(cls, ceiling: float) -> "ColocationSettings":
        """The defaults, with this part of the machine for all pods together."""
        return cls(offers=OfferSettings(ceiling=ceiling), quota=QuotaSettings(ceiling=ceiling))


class _Burst(NamedTuple):
    """A container with a cpu limit: its cgroup, its present quota, and how often it had been throttled."""

    folder: Path
    unified: bool
    quota: float
    throttled: int


class Holder(Protocol):
    """The parts of a worker that the loop needs; the runtime is another one after a failure."""

    @property
    def runtime(self) -> Runtime:
        """The present runtime."""

    def pods(self) -> Iterable[Pod]:
        """The pods that have not ended."""

    def evict(self, uid: str, message: str) -> None:
        """Evict a pod from this node."""


class Colocation:
    """Keeps the batch pods of one worker."""

    def __init__(
        self,
        holder: Holder,
        machine: HostResources,
        peaks: Callable[[], Mapping[str, float]],
        *,
        settings: ColocationSettings,
        clock: Clock,
        measurements: Measurements | None = None,
    ) -> None:
        self._holder: Final = holder
        self._machine: Final = machine
        self._peaks: Final = peaks
        self._settings: Final = settings
        self._clock: Final = clock
        self._measurements: Final = measurements or Measurements(self._tier, clock=clock)
        # The machine itself, not what the node declares: a quota is about cores.
        self._quota: Final = QuotaController(machine.sold[reclaimed.BATCH_CPU], settings.quota)
        self._evictions: Final = Evictions(settings.evictions)
        self._offers: Final = Offers(settings.offers)
        self._offered_s = float("-inf")
        self._burst_s = float("-inf")
        #: Containers that may burst, by run.
        self._bursting: Final[dict[str, _Burst]] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                self.step()
            except OSError as problem:
                log.warning("the cgroups of batch pods cannot be used", error=problem)
            await self._clock.sleep(EVERY_S)

    def offered(self) -> dict[str, int]:
        """What the node declares of the two resources."""
        return self._offers.amounts()

    def step(self) -> None:
        """Measure and act once."""
        sample = self._measurements.take()
        if sample is None:
            return
        pods = [pod for pod in self._holder.pods() if not pod.over and pod.termination is None]
        batch = [pod for pod in pods if reclaimed.is_batch(pod.seen)]
        others = [pod for pod in pods if pod not in batch]
        self._quota.step(sample.others_milli, sample.elapsed_s)
        # What needs no cgroup comes first: it must not end with one that cannot be written.
        self._evict(batch, sample)
        self._offer(others)
        self._set_quota()
        self._burst(others, sample)

    def _tier(self) -> batch_tier.BatchTier | None:
        return self._holder.runtime.batch_tier()

    def _set_quota(self) -> None:
        # Each time, since a tier that was removed and made again has no quota.
        tier = self._tier()
        if tier is not None:
            tier.limit(self._quota.quota)

    def _evict(self, batch: list[Pod], sample: Sample) -> None:
        found = Condition(
            memory_total=sample.memory_total,
            memory_available=sample.memory_available,
            stalled=sample.stalled,
            quota_milli=self._quota.quota,
        )
        measured = self._evictions.wants_memory(found)
        chosen = self._evictions.step(
            [self._batch_pod(pod, measured=measured) for pod in batch], found, self._clock.monotonic()
        )
        for pod, reason in chosen:
            self._holder.evict(pod.uid, reason)

    def _batch_pod(self, pod: Pod, *, measured: bool) -> BatchPod:
        runs = self._holder.runtime.places() if measured else {}
        own = [place for run, place in runs.items() if parse_run_id(run)[0] == pod.uid]
        return BatchPod(
            uid=pod.uid,
            priority=(pod.seen.get("spec") or {}).get("priority") or 0,
            begun_s=pod.begun_at,
            cpu_milli=pod.requests.get(reclaimed.BATCH_CPU, 0),
            memory_bytes=sum(read_counters(place).working_set_bytes or 0 for place in own),
        )

    def _burst(self, pods: list[Pod], sample: Sample) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._burst_s < _BURST_EVERY_S:
            return
        self._burst_s = now_s
        limits = {(pod.uid, name): limit for pod in pods for name, limit in _limits(pod).items()}
        load = (sample.others_milli + sample.batch_milli) / self._quota.capacity
        runs = self._holder.runtime.places()
        for gone in self._bursting.keys() - runs.keys():
            del self._bursting[gone]
        problem: OSError | None = None
        for run, place in runs.items():
            uid, container, _ = parse_run_id(run)
            limit = limits.get((uid, container))
            known = self._bursting.get(run)
            folder = known.folder if known is not None else _limited(place)
            if limit is None or folder is None:
                continue
            try:
                self._bursting[run] = self._next_burst(folder, limit, known, load)
            except OSError as error:
                if folder.exists():  # otherwise its container has ended
                    problem = error
        if problem is not None:
            raise problem

    def _next_burst(self, folder: Path, limit: float, known: _Burst | None, load: float) -> _Burst:
        throttled = batch_tier.throttled_periods(folder)
        # A former worker may have left another quota, so the first one is written in any case.
        before = known or _Burst(folder, (folder / "cpu.max").exists(), limit, throttled)
        quota = bursts.quota(
            limit, before.quota, throttled=throttled > before.throttled, load=load, settings=self._settings.bursts
        )
        if quota != before.quota or known is None:
            batch_tier.set_quota(folder, quota, unified=before.unified)
        return before._replace(quota=quota, throttled=throttled)

    def _offer(self, others: list[Pod]) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._offered_s < _OFFER_EVERY_S:
            return
        self._offered_s = now_s
        young = offers.unmeasured([(pod.begun_at, pod.requests) for pod in others], self._clock.now())
        ceiling = self._settings.offers.ceiling
        for name, peak in self._peaks().items():
            capacity = min(self._machine.allocatable.get(name, 0), self._machine.sold[reclaimed.SOLD[name]])
            left = offers.left(capacity, peak, young[name], ceiling=ceiling)
            self._offers.update(name, capacity, left, now_s)


def _limits(pod: Pod) -> dict[str, float]:
    """The cpu limits of a pod's containers, in thousandths."""
    spec = pod.seen.get("spec") or {}
    found = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        limit = ((container.get("resources") or {}).get("limits") or {}).get("cpu")
        if limit is not None:
            found[str(container["name"])] = float(quantities.milli(limit))
    return found


def _limited(place: Place) -> Path | None:
    """The cgroup folder with the cpu quota of a run."""
    for folder in map(Path, place.cgroups):
        if (folder / "cpu.cfs_quota_us").exists() or (folder / "cpu.max").exists():
            return folder
    return None
