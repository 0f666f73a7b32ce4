"""A run of the live scheduler, recorded: the simulator makes the same decisions in the same order."""

import contextlib
import gzip
import random
from pathlib import Path

import pytest

from rota.api import errors
from rota.client.pods import PODS
from rota.scheduler.recording import attachment
from rota.simulator import recorded_runs, traces
from rota.testing import clusters, schedulers
from rota.testing.schedulers import SchedulingCluster

PODS_ALL = 300


async def _busy_hour(cluster: SchedulingCluster, rng: random.Random) -> None:
    """Hundreds of pods of different priorities on too few nodes, of which some fail; pods end all the time."""
    for value in (1, 2, 1000):
        metadata = {"name": f"p{value}"}
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}
        await cluster.client.create(("scheduling.k8s.io", "v1", "priorityclasses"), kind)
    for number in range(8):
        await cluster.add_node(f"n{number}", labels={clusters.ZONE: f"z{number % 2}"}, cpu="8", pods="40")
    living: list[str] = []
    for number in range(PODS_ALL):
        urgent = number % 23 == 22
        await cluster.add_pod(
            f"p{number}",
            cpu="6" if urgent else rng.choice(["100m", "500m", "1", "2"]),
            labels={"app": "web" if number % 3 else "db"},
            **({"priorityClassName": f"p{1000 if urgent else number % 3}"} if urgent or number % 3 else {}),
        )
        living.append(f"p{number}")
        if number > 60 and number % 2:
            gone = living.pop(rng.randrange(len(living)))
            # It may have been evicted.
            with contextlib.suppress(errors.NotFound):
                await cluster.client.delete(PODS, gone, namespace="default")
        if number in {120, 200}:
            await cluster.client.delete(("", "v1", "nodes"), f"n{number // 100}")
        if number in {160, 240}:
            await cluster.add_node(f"back{number}", cpu="8", pods="40")
        if number % 10 == 0:
            await cluster.clock.advance(rng.choice([0.1, 1.0, 7.0]))
    await cluster.clock.advance(60)


@pytest.mark.slow
async def test_the_simulator_decides_as_the_recorded_scheduler_did(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    async with schedulers.cluster() as cluster, cluster.scheduling() as scheduler:
        recorder = attachment.attach(scheduler, path, clock=cluster.clock)
        async with cluster.running(recorder.run):
            await _busy_hour(cluster, random.Random(11))
    found = recorded_runs.compare(path)
    assert found.first_difference is None, str(found.first_difference)
    assert found.decisions > PODS_ALL
    text = gzip.decompress(path.read_bytes()).decode()
    assert '"victims"' in text
    assert '"entry":"nodeGone"' in text
    # The recording is a workload as well.
    assert len(traces.read(path)) >= PODS_ALL

    # A recording in which a decision was changed is not agreed with, and the difference is named.
    lines = text.splitlines()
    place = max(number for number, line in enumerate(lines) if '"chosen":"n5"' in line)
    lines[place] = lines[place].replace('"chosen":"n5"', '"chosen":"n4"')
    (tmp_path / "changed.rec").write_text("\n".join(lines) + "\n")
    changed = recorded_runs.compare(tmp_path / "changed.rec").first_difference
    assert changed is not None
    assert changed.then.node == "n4"
    assert changed.now is not None
    assert changed.now.node == "n5"
    assert f"decision {changed.number} at" in str(changed)
