"""`rota pipeline`: run, follow, change, draw."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from tests.cli.conftest import Cluster, Rota

from rota.api.pipelines import diagrams
from rota.cli.commands import pipeline_progress
from rota.cli.commands.pipeline_progress import Seen
from rota.testing.live import LiveServer

GROUP = "/apis/rota.dev/v1alpha1/namespaces"


def step(name: str, *command: str, **parts: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "process", "command": list(command) or ["true"]}
    return {"name": name, "template": {"spec": {"containers": [container]}}, **parts}


def pipeline(*steps: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    kind = {"apiVersion": "rota.dev/v1alpha1", "kind": "Pipeline", "metadata": {"name": "demo"}}
    return {**kind, "spec": {"steps": list(steps), **spec}}


def written(folder: Path, document: Any) -> str:
    path = folder / "demo.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_a_graph_is_drawn_without_a_server(rota: Rota, tmp_path: Path) -> None:
    path = written(tmp_path, pipeline(step("a"), step("b", dependsOn=["a"]), step("c", dependsOn=["a", "b"])))
    assert rota("pipeline", "graph", path).lines == ["a", "  b  <- a", "    c  <- a, b"]
    picture = ET.fromstring(rota("pipeline", "graph", path, "--svg").out)
    texts = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["a", "b", "c"]


def test_steps_at_the_end_of_a_run_are_drawn_as_such(rota: Rota, tmp_path: Path) -> None:
    path = written(tmp_path, pipeline(step("a"), onExit=[step("tell")]))
    assert rota("pipeline", "graph", path).lines == ["a", "tell  (at the end)"]
    picture = ET.fromstring(rota("pipeline", "graph", path, "--svg").out)
    boxes = picture.iter("{http://www.w3.org/2000/svg}rect")
    assert ["stroke-dasharray" in one.attrib for one in boxes] == [False, True]


def test_of_what_waits_it_is_shown_for_what() -> None:
    def step_run(name: str, **status: Any) -> dict[str, Any]:
        found, _, index = name.partition("/")
        spec = {"step": found, **({"index": int(index)} if index else {})}
        return {"metadata": {"name": name}, "spec": spec, "status": status}

    steps = [step("a"), step("b"), step("c"), step("d", dependsOn=["a"])]
    run = {"metadata": {"name": "r"}, "spec": {}, "status": {"spec": pipeline(*steps)["spec"]}}
    known = [
        step_run("a", phase="Waiting", message="it broke", notBefore="2000-01-01T00:00:00.000000Z", attempts=1),
        step_run("b/0", phase="Succeeded"),
        step_run("b/1", phase="Waiting", reason="MutexTaken", message="it waits for the mutex db"),
        step_run("b/2", phase="Waiting"),
        step_run("c", phase="Running", attempts=1),
    ]
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "no room"}
    pods = [{"metadata": {"name": "c-0"}, "status": {"conditions": [unscheduled]}}]
    shown = [(line[0], line[-1]) for line in pipeline_progress.rows(Seen(run, known, pods))]
    assert shown == [
        ("◌ a", "tried again in 0s: it broke"),
        ("◌ b", "███······· 1/3"),
        ("  ◌ b[1]", "it waits for the mutex db"),
        ("● c", "no room"),
        ("◌ d", "after a"),
    ]


def test_a_name_in_a_picture_does_nothing() -> None:
    drawn = diagrams.svg({"<script>": frozenset()}, {"<script>": "Failed"})
    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (pipeline(step("a", dependsOn=["b"]), step("b", dependsOn=["a"])), "circle"),
        ({"kind": "Pod"}, "apiVersion"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, "0 pipelines"),
    ],
)
def test_an_undrawable_pipeline_is_reported(rota: Rota, tmp_path: Path, document: Any, why: str) -> None:
    said = rota("pipeline", "graph", written(tmp_path, document))
    assert said.code == 2
    assert why in said.err


def test_a_run_is_begun_with_its_parameters(rota: Rota, server: LiveServer, namespace: str, tmp_path: Path) -> None:
    path = written(tmp_path, pipeline(step("a"), parameters=[{"name": "n", "default": "1"}]))
    said = rota("pipeline", "run", path, "-p", "n=2", "--name", "r", "-n", namespace)
    assert (said.code, said.out) == (0, "pipelinerun/r begun\n")
    _, found = server.request("GET", f"{GROUP}/{namespace}/pipelineruns/r")
    assert found["spec"] == {"pipeline": "demo", "parameters": [{"name": "n", "value": "2"}]}
    again = json.loads(rota("pipeline", "run", "demo", "--json", "-n", namespace).out)
    assert again["metadata"]["name"].startswith("demo-")
    listed = rota("pipeline", "list", "-n", namespace)
    assert [row[1:3] for row in listed.cells[1:]] == [["demo", "Pending"], ["demo", "Pending"]]


def test_a_run_is_where_its_pipeline_is(rota: Rota, server: LiveServer, namespace: str, tmp_path: Path) -> None:
    work = pipeline(step("a"))
    work["metadata"]["namespace"] = namespace
    path = written(tmp_path, work)
    assert rota("pipeline", "run", path, "--name", "r").code == 0
    code, _ = server.request("GET", f"{GROUP}/{namespace}/pipelineruns/r")
    assert code == 200
    refused = rota("pipeline", "run", path, "-n", "default")
    assert (refused.code, f"the file says namespace {namespace}" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"steps": "abc"}, "no steps"),
        ({"steps": [{"template": {}}]}, "no steps"),
        ([], "no steps"),
        ({"steps": [{**step("a"), "dependsOn": 5}]}, "no steps"),
        ({"steps": [step("a", dependsOn=["b"])]}, "spec.steps[0].dependsOn[0]"),
        ({"steps": [step("a", when="((")]}, "ends too early"),
        ({"steps": [step("a", dependsOn=["b"]), step("b", dependsOn=["a"])]}, "a -> b -> a"),
    ],
)
def test_an_undrawable_pipeline_is_reported_with_its_path(rota: Rota, tmp_path: Path, spec: Any, why: str) -> None:
    said = rota("pipeline", "graph", written(tmp_path, {**pipeline(), "spec": spec}))
    assert (said.code, why in said.err) == (2, True), said.err


def test_the_course_of_a_run_can_be_changed_while_it_has_one(
    rota: Rota, server: LiveServer, namespace: str, tmp_path: Path
) -> None:
    rota("pipeline", "run", written(tmp_path, pipeline(step("a"))), "--name", "r", "-n", namespace)
    for verb, what, value in (("suspend", "suspend", True), ("resume", "suspend", None), ("cancel", "cancel", True)):
        assert rota("pipeline", verb, "r", "-n", namespace).code == 0
        _, found = server.request("GET", f"{GROUP}/{namespace}/pipelineruns/r")
        assert found["spec"].get(what) == value
    refused = rota("pipeline", "retry", "r", "-n", namespace)
    assert (refused.code, "only what failed" in refused.err) == (2, True)
    status = {"status": {"phase": "Cancelled"}}
    path = f"{GROUP}/{namespace}/pipelineruns/r/status"
    server.request("PATCH", path, status, content_type="application/merge-patch+json")
    assert rota("pipeline", "cancel", "r", "-n", namespace).code == 2
    assert rota("pipeline", "retry", "r", "-n", namespace).out == "pipelinerun/r is tried again\n"


def test_an_unknown_run_is_not_waited_for(rota: Rota, namespace: str) -> None:
    for verb in (["get", "nobody", "--watch"], ["logs", "nobody"], ["cancel", "nobody"]):
        said = rota("pipeline", *verb, "-n", namespace)
        assert said.code != 0
        assert "not found" in said.err


def test_missing_pipelines_and_unknown_parameters_start_no_run(
    rota: Rota, server: LiveServer, namespace: str, tmp_path: Path
) -> None:
    nowhere = rota("pipeline", "run", "nobody", "-n", namespace)
    assert (nowhere.code, "there is no pipeline nobody" in nowhere.err) == (2, True)
    path = written(tmp_path, pipeline(step("a"), parameters=[{"name": "model"}]))
    for given, why in ((["-p", "modle=small"], "the pipeline has model"), ([], "parameters[model]")):
        refused = rota("pipeline", "run", path, *given, "-n", namespace)
        assert (refused.code, why in refused.err) == (2, True), refused.err
    _, runs = server.request("GET", f"{GROUP}/{namespace}/pipelineruns")
    assert runs["items"] == []


def test_a_run_that_never_began_is_shown_without_steps_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    status = {"phase": "Failed", "message": "there is no pipeline x", "finishedAt": "2026-01-01T00:00:00Z"}
    pipeline_progress.show(Seen({"metadata": {"name": "r"}, "spec": {"pipeline": "x"}, "status": status}, (), ()))
    assert capsys.readouterr().out == "r: Failed, 0/0 done\nthere is no pipeline x\n"


@pytest.mark.parametrize(
    ("began", "ended", "shown"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "<1s"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:07Z", "7s"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:02:07Z", "2m07s"),
    ],
)
def test_durations_of_runs_are_shown_in_seconds(began: str, ended: str, shown: str) -> None:
    status = {"phase": "Succeeded", "startedAt": began, "finishedAt": ended}
    assert pipeline_progress.summary({"metadata": {"name": "r"}, "spec": {}, "status": status})[4] == shown


@pytest.mark.slow
def test_a_pipeline_runs_to_its_end_and_its_code_says_how(cluster: Cluster, tmp_path: Path) -> None:
    work = pipeline(
        step("list", "sh", "-c", 'echo \'["a", "b"]\'', outputs=[{"name": "names", "from": "stdout"}]),
        step("greet", "echo", "hello {{ item }}", forEach={"from": "{{ steps.list.outputs.names }}"}),
        step("last", "sh", "-c", "echo bye; exit {{ parameters.code }}", dependsOn=["greet"]),
        parameters=[{"name": "code", "default": "0"}],
    )
    path = written(tmp_path, work)
    done = cluster.rota("pipeline", "run", path, "--watch", "--name", "good")
    assert done.returncode == 0, done.stderr
    assert "good succeeded" in done.stdout
    said = cluster.rota("pipeline", "logs", "good").stdout.splitlines()
    assert sorted(said) == ["[greet[0]] hello a", "[greet[1]] hello b", "[last] bye", '[list] ["a", "b"]']
    failed = cluster.rota("pipeline", "run", path, "-p", "code=3", "--watch", "--name", "bad")
    assert failed.returncode == 1
    assert "container main ended with code 3" in failed.stdout


def test_without_a_name_all_runs_are_listed(rota: Rota, server: LiveServer, namespace: str) -> None:
    said = rota("pipeline", "get", "-n", namespace)
    assert (said.code, said.out) == (0, ""), said.err
    run = {
        "apiVersion": "rota.dev/v1alpha1",
        "kind": "PipelineRun",
        "metadata": {"name": "nightly"},
        "spec": {"pipeline": "none"},
    }
    server.create(f"/apis/rota.dev/v1alpha1/namespaces/{namespace}/pipelineruns", run)
    assert "nightly" in rota("pipeline", "get", "-n", namespace).out
