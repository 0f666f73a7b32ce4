"""Decisions recorded and made again: the same by the same configuration, whatever has happened in between."""

import asyncio
import contextlib
import random
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner, read_node
from rota.columns.pods import PodInfo
from rota.scheduler.core.attempts import Attempt
from rota.scheduler.cycle.scheduling_cycle import ExtenderResult, SchedulingCycle
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.recording import attachment
from rota.scheduler.recording.files import NotARecording, Reader
from rota.scheduler.recording.recorder import Recorder
from rota.scheduler.recording.replay import Compared, Replay
from rota.testing import clusters, schedulers
from rota.testing.clocks import FakeClock
from rota.testing.clusters import LAW, Document, make_node, make_pod

MOST = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
"""


class Workshop:
    """A cluster, a cycle and a recorder, without a server."""

    def __init__(self, path: Path, *, longest: int = 1 << 30, start: int = 3) -> None:
        self.interner = PodInterner()
        self.cluster = Cluster()
        self.loaded = third_party.default(builtin.registry())
        self.cycle = SchedulingCycle(Framework(self.loaded.configuration.first, self.loaded.registry), self.cluster)
        self.nominations: dict[str, list[PodInfo]] = {}
        self.clock = FakeClock()
        self.start = start
        self.recorder = Recorder(
            path,
            cluster=self.cluster,
            interner=self.interner,
            configuration=lambda: self.loaded.configuration.settings,
            nominations=lambda: self.nominations,
            clock=self.clock,
            longest=longest,
        )

    @contextlib.asynccontextmanager
    async def recording(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.recorder.run())
        await asyncio.sleep(0)
        assert self.recorder.recording
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def node(self, document: Document) -> None:
        self.cluster.set_node(read_node(document))

    def pod(self, document: Document) -> PodInfo:
        return self.interner.pod(document, keep=True)

    def decide(
        self, document: Document, *, advice: ExtenderResult | None = None, avoiding: Sequence[str] = ()
    ) -> str | None:
        """Decide, have it recorded, and assume the pod where it goes."""
        pod = self.pod(document)
        evaluation = self.cycle.evaluate(pod, nominations=self.nominations)
        away = frozenset(avoiding)
        node = self.cycle.choose(evaluation, start=self.start, avoiding=away, advice=advice)
        refusal = None if node else self.cycle.refuse(evaluation, start=self.start, advice=advice)
        self.recorder.observe(Attempt(pod, evaluation, node, refusal, self.start, away, advice, True))
        if node is not None:
            self.cluster.add_pod(pod, node)
        elif refusal is not None and refusal.room is not None and refusal.room.nominated_node:
            self.nominations.setdefault(refusal.room.nominated_node, []).append(pod)
        return node


def replay(path: Path, loaded: Loaded | None = None) -> list[Compared]:
    return list(Replay(Reader(path), builtin.registry(), loaded=loaded).decisions())


async def test_a_recording_makes_the_same_decisions(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "a.rec")
    shop.node(make_node("n1"))
    shop.node(make_node("gone"))
    shop.node(make_node("n2"))
    shop.cluster.add_pod(shop.pod(make_pod("old", on="n1", cpu="1", priority=1)))
    shop.cluster.remove_node("gone")
    async with shop.recording():
        assert shop.decide(make_pod("a", cpu="1")) == "n2"
        shop.node(make_node("n3", cpu="8"))  # takes the freed row
        assert shop.decide(make_pod("b", cpu="1")) == "n3"
        assert shop.decide(make_pod("huge", cpu="64")) is None
        assert shop.decide(make_pod("urgent", cpu="4", priority=100), avoiding=["n3"]) is None
        shop.cluster.remove_pod("uid-old")
        shop.cluster.catalog.put("Namespace", {"metadata": {"name": "default", "labels": {"team": "a"}}})
        shop.cluster.catalog.remove("Namespace", "", "default")
        assert shop.decide(make_pod("c", cpu="1")) is not None
    again = replay(tmp_path / "a.rec")
    assert [each.pod for each in again] == [f"default/{name}" for name in ("a", "b", "huge", "urgent", "c")]
    assert all(each.same for each in again)
    assert again[2].then.message.startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert again[0].at == shop.clock.now()


def test_a_recording_of_version_1_is_still_replayed() -> None:
    again = replay(Path(__file__).parent / "recordings" / "format-1.rec")
    assert [each.pod for each in again] == [f"default/{name}" for name in ("a", "b", "huge", "urgent", "c")]
    assert all(each.same for each in again)


async def test_what_extenders_said_counts_again(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "a.rec")
    for name in ("n1", "n2", "n3"):
        shop.node(make_node(name))
    refusal = Status(Code.UNSCHEDULABLE, ("sold out",), "Extender")
    advice = ExtenderResult(allowed=frozenset({"n2", "n3"}), refusals={"n1": refusal}, scores={"n3": 50})
    nobody = ExtenderResult(allowed=frozenset(), refusals=dict.fromkeys(("n1", "n2", "n3"), refusal))
    async with shop.recording():
        assert shop.decide(make_pod("a"), advice=advice) == "n3"
        assert shop.decide(make_pod("b"), advice=nobody) is None
    first, second = replay(tmp_path / "a.rec")
    assert first.same
    assert second.same
    assert second.then.message.startswith("0/3 nodes are available: 3 sold out.")


async def test_another_configuration_shows_what_it_would_have_done(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "a.rec", start=0)
    shop.node(make_node("n1"))
    shop.node(make_node("n2"))
    async with shop.recording():
        assert [shop.decide(make_pod(f"p{number}", cpu="1")) for number in range(3)] == ["n1", "n2", "n1"]
    packed = replay(tmp_path / "a.rec", third_party.load(MOST, builtin.registry()))
    assert [(each.then.node, each.now.node) for each in packed] == [("n1", "n1"), ("n2", "n1"), ("n1", "n1")]


async def test_a_changed_configuration_begins_a_new_file(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "a.rec", start=0)
    shop.node(make_node("n1"))
    shop.node(make_node("n2"))
    async with shop.recording():
        shop.decide(make_pod("a", cpu="1"))
        shop.loaded = third_party.load(MOST, builtin.registry())
        shop.cycle = SchedulingCycle(Framework(shop.loaded.configuration.first, shop.loaded.registry), shop.cluster)
        await _until(shop, (tmp_path / "a.rec.1").exists)
        shop.decide(make_pod("b", cpu="1"))
    assert [(each.pod, each.same) for each in replay(tmp_path / "a.rec.1")] == [("default/a", True)]
    assert [(each.pod, each.then.node, each.same) for each in replay(tmp_path / "a.rec")] == [("default/b", "n1", True)]


async def test_a_file_that_has_grown_too_long_is_put_aside_and_both_can_be_replayed(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "a.rec", longest=3000)
    for name in ("n1", "n2"):
        shop.node(make_node(name, pods="1000", cpu="500"))
    decided = 0
    async with shop.recording():
        while not (tmp_path / "a.rec.1").exists():
            for _ in range(20):
                shop.decide(make_pod(f"p{decided}", labels={"n": str(decided)}))
                decided += 1
            await shop.clock.advance(1)
            await asyncio.to_thread(lambda: None)
        shop.decide(make_pod("last"))
    old, new = replay(tmp_path / "a.rec.1"), replay(tmp_path / "a.rec")
    assert all(each.same for each in (*old, *new))
    assert len(old) + len(new) == decided + 1
    assert new[-1].pod == "default/last"
    assert (tmp_path / "a.rec.1").stat().st_size < 20_000


async def test_heartbeats_take_no_room(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "a.rec")
    async with shop.recording():
        for _ in range(1000):
            shop.node(make_node("n1"))
        shop.decide(make_pod("a"))
    assert (tmp_path / "a.rec").stat().st_size < 2500


@pytest.mark.parametrize("missing", [1, 5, 40, 200])
async def test_a_tail_that_is_cut_off_costs_only_itself(tmp_path: Path, missing: int) -> None:
    shop = Workshop(tmp_path / "a.rec")
    shop.node(make_node("n1"))
    async with shop.recording():
        for number in range(5):
            shop.decide(make_pod(f"p{number}"))
            await _until(shop, lambda: not shop.recorder._waiting)
    whole = (tmp_path / "a.rec").read_bytes()
    (tmp_path / "cut.rec").write_bytes(whole[:-missing])
    reader = Reader(tmp_path / "cut.rec")
    again = list(Replay(reader, builtin.registry()).decisions())
    assert reader.cut_off
    # The last eight bytes are a checksum.
    assert (len(again) < 5) == (missing > 8)
    assert [each.pod for each in again] == [f"default/p{number}" for number in range(len(again))]
    assert all(each.same for each in again)


async def test_what_is_no_recording_is_said_to_be_none(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"something else")
    with pytest.raises(NotARecording, match="is no recording"):
        Reader(file)
    with pytest.raises(NotARecording, match="No such file"):
        Reader(tmp_path / "nowhere")
    file.write_bytes(b"rota recording 1\n")
    with pytest.raises(NotARecording, match="ends before the first decision"):
        replay(file)


async def test_after_a_crash_a_new_file_begins_that_is_whole(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "a.rec")
    shop.node(make_node("n1"))
    async with shop.recording():
        shop.decide(make_pod("a"))
        shop.cluster._tell("juggle", "n1")  # an account of something that no recording knows
        await _until(shop, lambda: not shop.recorder.recording)
        assert shop.decide(make_pod("unseen")) == "n1"
    async with shop.recording():
        shop.decide(make_pod("b"))
    assert [(each.pod, each.same) for each in replay(tmp_path / "a.rec")] == [("default/b", True)]


async def test_a_disk_that_fails_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    shop = Workshop(tmp_path / "nowhere" / "a.rec")
    shop.node(make_node("n1"))
    await asyncio.wait_for(shop.recorder.run(), 5)
    assert not shop.recorder.recording
    assert shop.decide(make_pod("a")) == "n1"


async def _until(shop: Workshop, holds: Any) -> None:
    for _ in range(5_000):  # the file is written by a thread, which a busy machine delays
        if holds():
            return
        await shop.clock.advance(1)
        await asyncio.to_thread(lambda: None)
    raise AssertionError("it did not come true")


@pytest.mark.slow
@settings(LAW, max_examples=25)
@given(clusters.situations(), st.lists(clusters.pods("w"), min_size=1, max_size=4), st.integers(0, 9))
def test_any_recording_replays_as_it_was(
    situation: tuple[list[Document], list[Document]], wanted: list[Document], start: int
) -> None:
    nodes, placed = situation

    async def run(path: Path) -> None:
        shop = Workshop(path, start=start)
        half = len(nodes) // 2
        for node in nodes[:half]:
            shop.node(node)
        for pod in placed[::2]:
            shop.cluster.add_pod(shop.pod(pod))
        async with shop.recording():
            for node in nodes[half:]:
                shop.node(node)
            for pod in placed[1::2]:
                shop.cluster.add_pod(shop.pod(pod))
            for number, document in enumerate(wanted):
                named = {**document["metadata"], "name": f"w{number}", "uid": f"uid-w{number}"}
                shop.decide({**document, "metadata": named})
                if number == 1:
                    shop.cluster.remove_node(nodes[0]["metadata"]["name"])
        again = replay(path)
        assert len(again) == len(wanted)
        for each in again:
            assert each.now == each.then

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder, "a.rec")))


@pytest.mark.slow
async def test_a_whole_scheduler_is_recorded_and_replayed(tmp_path: Path) -> None:
    rng = random.Random(5)
    async with schedulers.cluster() as cluster, cluster.scheduling() as scheduler:
        recorder = attachment.attach(scheduler, tmp_path / "a.rec", clock=cluster.clock)
        async with cluster.running(recorder.run):
            for number in range(4):
                await cluster.add_node(f"n{number}", labels={clusters.ZONE: f"z{number % 2}"})
            for number in range(40):
                far = {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 7,
                                "podAffinityTerm": {
                                    "topologyKey": clusters.ZONE,
                                    "labelSelector": {"matchLabels": {"app": "web"}},
                                },
                            }
                        ]
                    }
                }
                await cluster.add_pod(
                    f"p{number}", cpu=rng.choice(["100m", "500m", "1"]), labels={"app": "web"}, affinity=far
                )
                if number == 20:
                    await cluster.add_node("late")
            await cluster.clock.advance(30)
    again = replay(tmp_path / "a.rec")
    assert len(again) >= 40
    assert sum(bool(each.then.node) for each in again) > 20
    assert [each for each in again if not each.same] == []
