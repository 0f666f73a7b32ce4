"""`rota job`, `rota queue`, and the batch examples of the documentation, on a cluster with real processes."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cluster

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "batch"
PATIENCE_S = 60.0

pytestmark = pytest.mark.slow


def wait(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.1)


def read(cluster: Cluster, *words: str) -> Any:
    said = cluster.rota("get", *words, "-o", "json")
    return json.loads(said.stdout) if said.returncode == 0 else {}


def job(cluster: Cluster, name: str) -> Any:
    return read(cluster, "jobs.batch.volcano.sh", name)


def phase(cluster: Cluster, name: str, kind: str = "jobs.batch.volcano.sh") -> str:
    found = read(cluster, kind, name)
    return str(((found.get("status") or {}).get("state") or {}).get("phase") or "")


def reaches(cluster: Cluster, name: str, *phases: str, kind: str = "jobs.batch.volcano.sh") -> Any:
    wait(lambda: phase(cluster, name, kind) in phases, lambda: read(cluster, kind, name))
    return read(cluster, kind, name)


def output(cluster: Cluster, pod: str) -> str:
    return cluster.rota("logs", pod).stdout


@pytest.fixture
def submitted(cluster: Cluster) -> Iterator[Callable[[str], None]]:
    """Submits examples, and deletes their objects after the test."""
    files: list[str] = []

    def submit(name: str) -> None:
        said = cluster.rota("submit", str(EXAMPLES / name))
        assert said.returncode == 0, said.stderr
        files.append(name)

    yield submit
    for name in files:
        cluster.rota("delete", "-f", str(EXAMPLES / name))


Submit = Callable[[str], None]


def test_a_gang_runs_to_its_end(cluster: Cluster, submitted: Submit) -> None:
    submitted("gang.yaml")
    done = reaches(cluster, "gang", "Completed")
    assert done["status"]["succeeded"] == 6
    assert "worker 2 of 6" in output(cluster, "gang-worker-2")


def test_four_processes_talk_to_each_other(cluster: Cluster, submitted: Submit) -> None:
    submitted("sum.yaml")
    reaches(cluster, "sum", "Completed")
    wait(lambda: "the sum is 60" in output(cluster, "sum-worker-0"), lambda: output(cluster, "sum-worker-0"))
    assert "process 1 of 4: the sum is 60" in output(cluster, "sum-worker-0")


def test_tasks_start_one_after_the_other(cluster: Cluster, submitted: Submit) -> None:
    submitted("stages.yaml")
    done = reaches(cluster, "stages", "Completed")
    assert done["status"]["succeeded"] == 4
    created = {
        one["metadata"]["name"]: one["metadata"]["creationTimestamp"]
        for one in read(cluster, "pods", "-l", "volcano.sh/job-name=stages")["items"]
    }
    assert created["stages-map-0"] <= created["stages-reduce-0"] <= created["stages-report-0"]


def test_servers_end_with_their_workers(cluster: Cluster, submitted: Submit) -> None:
    submitted("parameter-servers.yaml")
    reaches(cluster, "parameters", "Completed")
    assert output(cluster, "parameters-worker-1").strip() == "parameters-ps-0.parameters:2222"
    wait(lambda: not read(cluster, "pods", "parameters-ps-0"), lambda: read(cluster, "pods", "parameters-ps-0"))


def test_a_master_knows_its_workers(cluster: Cluster, submitted: Submit) -> None:
    submitted("mpi.yaml")
    reaches(cluster, "mpi", "Completed")
    assert output(cluster, "mpi-master-0").split() == ["mpi-worker-0.mpi", "mpi-worker-1.mpi"]


def test_an_exit_code_terminates_a_job(cluster: Cluster, submitted: Submit) -> None:
    submitted("exit-codes.yaml")
    ended = reaches(cluster, "codes", "Terminated")
    assert ended["status"].get("retryCount", 0) == 0


def test_a_job_runs_in_a_queue_below_another(cluster: Cluster, submitted: Submit) -> None:
    submitted("queues.yaml")
    reaches(cluster, "daily", "Completed")
    rows = {row.split()[0]: row.split()[1:4] for row in cluster.rota("queue", "list").stdout.splitlines()[1:]}
    assert rows["team-day"] == ["team", "Open", "3"]
    for name in ("team-day", "team-night", "team"):
        assert cluster.rota("queue", "operate", name, "--action", "close").returncode == 0
        wait(
            lambda name=name: read(cluster, "queues", name)["status"].get("state") == "Closed",  # type: ignore[misc]
            lambda: cluster.rota("queue", "list").stdout,
        )
    refused = cluster.rota("job", "run", "-q", "team-day", "--", "true")
    assert (refused.returncode, "state Open, queue team-day is Closed" in refused.stderr) == (2, True), refused.stderr
    for name in ("team-day", "team-night", "team"):
        assert cluster.rota("queue", "delete", name).returncode == 0


def test_a_deployment_runs_in_a_queue(cluster: Cluster, submitted: Submit) -> None:
    submitted("deployment.yaml")
    wait(
        lambda: (read(cluster, "deployments", "queued").get("status") or {}).get("readyReplicas") == 2,
        lambda: cluster.rota("queue", "get", "services").stdout,
    )
    shown = json.loads(cluster.rota("queue", "get", "services", "--json").stdout)
    (group,) = shown["groups"]
    assert (group["spec"]["minMember"], group["status"]["phase"]) == (1, "Running")


def test_a_flow_runs_its_jobs_in_order(cluster: Cluster, submitted: Submit) -> None:
    submitted("flow.yaml")
    done = reaches(cluster, "diamond", "Succeed", kind="jobflows")
    assert done["status"]["completedJobs"] == [f"diamond-{name}" for name in "abcde"]
    wait(lambda: not job(cluster, "diamond-a"), lambda: job(cluster, "diamond-a"))


def test_a_cron_job_is_accepted_and_waits_for_its_minute(cluster: Cluster, submitted: Submit) -> None:
    submitted("cron-job.yaml")
    assert read(cluster, "cronjobs.batch.volcano.sh", "minutely")["spec"]["jobTemplate"]["spec"]["minAvailable"] == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("refused-minimum.yaml", "must not be greater than total replicas"),
        ("refused-task-name.yaml", "spec.tasks[1].name: Duplicate value"),
        ("refused-policies.yaml", "spec.policies[1].event: Duplicate value"),
    ],
)
def test_a_broken_example_is_refused(cluster: Cluster, name: str, words: str) -> None:
    said = cluster.rota("submit", str(EXAMPLES / name))
    assert said.returncode != 0
    assert words in said.stderr


def test_every_example_is_tested() -> None:
    here = Path(__file__).read_text()
    assert [one.name for one in EXAMPLES.iterdir() if f'"{one.name}"' not in here] == []


def test_a_job_that_does_not_fit_says_why_and_can_be_suspended_resumed_and_deleted(cluster: Cluster) -> None:
    started = cluster.rota("job", "run", "-N", "large", "-r", "3", "--gang", "-R", "cpu=1000", "--", "sleep", "600")
    assert started.stdout == "job.batch.volcano.sh/large created\n"

    def why() -> str:
        (row,) = [one for one in cluster.rota("job", "list").stdout.splitlines() if one.startswith("large ")]
        return row

    # The scheduler's own words come after ten cells of one word each.
    wait(lambda: len(why().split()) > 12, why)
    assert "large-" not in cluster.rota("get", "pods").stdout or "Pending" in cluster.rota("get", "pods").stdout
    assert cluster.rota("job", "suspend", "large").stdout == "job.batch.volcano.sh/large is being suspended\n"
    reaches(cluster, "large", "Aborted")
    again = cluster.rota("job", "suspend", "large")
    assert (again.returncode, "only a job that waits or runs" in again.stderr) == (2, True)
    assert cluster.rota("job", "resume", "large").stdout == "job.batch.volcano.sh/large is being resumed\n"
    reaches(cluster, "large", "Pending")
    assert "phases     " in cluster.rota("job", "view", "large").stdout
    assert cluster.rota("job", "delete", "large").returncode == 0
    wait(lambda: not job(cluster, "large"), lambda: job(cluster, "large"))
    gone = cluster.rota("job", "view", "large")
    assert (gone.returncode, "there is no batch job large" in gone.stderr) == (2, True)


def test_an_evicted_gang_starts_again_as_a_whole(cluster: Cluster) -> None:
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "whole"},
        "spec": {
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "tasks": [
                {
                    "name": "w",
                    "replicas": 3,
                    "template": {
                        "spec": {
                            "terminationGracePeriodSeconds": 1,
                            "containers": [{"name": "main", "image": "none", "command": ["sleep", "600"]}],
                        }
                    },
                }
            ],
        },
    }
    file = cluster.folder / "whole.json"
    file.write_text(json.dumps(manifest))
    assert cluster.rota("job", "run", "-f", str(file)).returncode == 0
    reaches(cluster, "whole", "Running")
    cluster.rota("delete", "pods", "whole-w-1")

    def restarted() -> bool:
        status = job(cluster, "whole").get("status") or {}
        return (status.get("retryCount"), status["state"]["phase"], status.get("running")) == (1, "Running", 3)

    wait(restarted, lambda: job(cluster, "whole"))
    cluster.rota("job", "delete", "whole")


def test_a_queue_is_created_and_its_weight_changed(cluster: Cluster) -> None:
    words = ("--weight", "2", "--deserved", "cpu=1", "--capability", "cpu=2,memory=1Gi", "--not-reclaimable")
    assert cluster.rota("queue", "create", "mine", *words).stdout == "queue.scheduling.volcano.sh/mine created\n"
    assert cluster.rota("queue", "operate", "mine", "--action", "update", "--weight", "5").returncode == 0
    spec = read(cluster, "queues", "mine")["spec"]
    assert (spec["weight"], spec["reclaimable"], spec["parent"]) == (5, False, "root")
    assert spec["capability"] == {"cpu": "2", "memory": "1Gi"}
    wrong = cluster.rota("queue", "create", "other", "--deserved", "cpu=lots")
    assert (wrong.returncode, "'cpu=lots' is no amount" in wrong.stderr) == (2, True)
    open_still = cluster.rota("queue", "delete", "mine")
    assert (open_still.returncode, "close it first" in open_still.stderr) == (2, True), open_still.stderr
