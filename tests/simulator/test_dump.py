"""A dump of a live cluster: what is in it, what is not, and that commands read it."""

import json
from pathlib import Path

from click.testing import CliRunner

from rota.cli.main import root
from rota.scheduler.recording import trace_files, trace_lines
from rota.scheduler.recording.trace_files import TraceReader
from rota.scheduler.snapshot import cluster_dump
from rota.simulator import traces
from rota.testing import schedulers


async def dumped(path: Path) -> None:
    async with schedulers.cluster() as cluster:
        await cluster.add_node("n1", cpu="4", pods="10")
        await cluster.add_node("n2", cpu="2", pods="10")
        await cluster.add_pod("waits", cpu="1")
        found = await cluster_dump.take(cluster.client)
    path.write_bytes(trace_files.packed([trace_files.header(about="a cluster"), *found.lines]))


async def test_a_dump_is_a_trace_that_decide_and_simulate_read(tmp_path: Path) -> None:
    path = tmp_path / "now.jsonl.gz"
    await dumped(path)
    trace = traces.read(path)
    assert [node["metadata"]["name"] for node in trace.nodes] == ["n1", "n2"]
    assert "waits" in trace.names
    (tmp_path / "pod.json").write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "new"},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
            }
        )
    )
    decided = CliRunner().invoke(root, ["decide", "--cluster", str(path), "--pod", str(tmp_path / "pod.json")])
    assert decided.exit_code == 0, decided.output
    assert json.loads(decided.output)["best"] == ["n1"]
    again = CliRunner().invoke(root, ["simulate", str(path), "--json"])
    assert again.exit_code == 0, again.output
    assert json.loads(again.output)["results"][0]["placed"] >= 1


def test_private_fields_of_containers_are_left_out() -> None:
    container = {"name": "c", "image": "i", "env": [{"name": "PASSWORD", "value": "s3cret"}], "command": ["x"]}
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "managedFields": [{}]},
        "spec": {"containers": [container], "nodeName": "n1"},
    }
    line = cluster_dump.pod_line(pod)
    text = trace_lines.encoded(line).decode()
    assert "s3cret" not in text
    assert "managedFields" not in text
    assert line.node == "n1"


def test_the_objects_of_a_trace_are_those_at_its_beginning() -> None:
    hour = Path(__file__).parents[2] / "examples" / "traces" / "hour.jsonl"
    found = [document for _, document in cluster_dump.objects(TraceReader(hour))]
    assert [each["kind"] for each in found] == ["Node"] * 8 + ["Pod"]
    assert found[-1]["metadata"]["name"] == "service-0"
    assert found[-1]["metadata"]["labels"] == {"app": "service"}
