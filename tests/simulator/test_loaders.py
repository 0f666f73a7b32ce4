"""Other schemas as workloads: CSV with a mapping, Azure's machines, Google's tasks."""

from pathlib import Path

import pytest

from rota.kit.errors import UserError
from rota.simulator import traces
from rota.simulator.loaders import azure, csv_mapping, google
from rota.simulator.traces import FOREVER

JOBS = "job,submit,finish,cores,mem,prio\na,1000,61000,2,512,0\nb,2000,,0.5,1024,7\nc,3000,3500,2,512,0\n"
MAP = "name=job,at=submit:ms,end=finish:ms,cpu=cores,memory=mem:Mi,priority=prio"
MACHINES = "vm1,s,d,0,86400,9,1,5,Interactive,4,32\nvm2,s,d,300,,9,1,5,Unknown,>24,>64\n"


def file(at: Path, text: str, name: str = "file.csv") -> Path:
    path = at / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text)
    return path


def test_a_mapping_says_what_columns_mean(tmp_path: Path) -> None:
    trace = csv_mapping.load(file(tmp_path, JOBS), csv_mapping.mapping(MAP))
    assert trace.at.tolist() == [1, 2, 3]
    assert trace.duration.tolist() == [60, FOREVER, 0.5]
    assert trace.template.tolist() == [0, 1, 0]
    spec = trace.templates[1]["spec"]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "0.5", "memory": "1024Mi"}
    assert spec["priority"] == 7


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (JOBS.replace("submit,", "sent,"), 'line 1: the column "submit" is missing'),
        (JOBS.replace("61000", "1"), "line 2, field finish: 0.001 s is before the start, at 1 s"),
        (JOBS.replace(",0.5,", ",-0.5,"), "line 3, field cores: -0.5 is negative"),
        (JOBS.replace("c,3000", "a,3000"), 'line 4, field job: there is another pod "a"'),
        (JOBS.replace(",512,0\nb", ",half,0\nb"), 'line 2, field mem: "halfMi" is no quantity'),
    ],
)
def test_faulty_rows_of_a_csv_file_are_named(tmp_path: Path, text: str, told: str) -> None:
    path = file(tmp_path, text)
    with pytest.raises(UserError) as caught:
        csv_mapping.load(path, csv_mapping.mapping(MAP))
    assert told in str(caught.value)


@pytest.mark.parametrize("text", ["cpu=cores", "at", "at=x:weeks", "at=x,end=y,duration=z"])
def test_a_mapping_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        csv_mapping.mapping(text)


def test_machines_of_azure_arrive_and_end(tmp_path: Path) -> None:
    trace = azure.load(file(tmp_path, MACHINES))
    assert trace.names == ["vm1", "vm2"]
    assert trace.duration.tolist() == [86_400, FOREVER]
    requests = trace.templates[1]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "24", "memory": "64Gi"}
    with pytest.raises(UserError, match="line 2, field vmdeleted: 5 is before the start, at 300"):
        azure.load(file(tmp_path, MACHINES.replace("300,,", "300,5,")))


def test_tasks_of_google_run_as_long_as_they_did(tmp_path: Path) -> None:
    file(tmp_path, "0,1,0,p,0.5,0.25\n0,2,0,p,1,1\n900000000,2,1,p,,\n", "machine_events/part-0.csv")
    tasks = [
        "600000000,,7,0,,0,u,2,9,0.125,0.1,0,0",
        "601000000,,7,0,1,1,u,2,9,0.125,0.1,0,0",
        "661000000,,7,0,1,2,u,2,9,0.125,0.1,0,0",
        "662000000,,7,0,,0,u,2,9,0.125,0.1,0,0",
    ]
    file(tmp_path, "\n".join(tasks) + "\n", "task_events/part-0.csv")
    trace = google.load(tmp_path)
    assert [node["metadata"]["name"] for node in trace.nodes] == ["machine-1", "machine-2"]
    assert trace.nodes[0]["status"]["allocatable"]["cpu"] == "32000m"
    assert trace.names == ["7-0", "7-0-2"]
    assert trace.at.tolist() == [600, 662]
    assert trace.duration.tolist() == [60, FOREVER]
    assert [line.at for line in trace.changes] == [900]


def test_every_schema_ends_in_the_same_format(tmp_path: Path) -> None:
    trace = azure.load(file(tmp_path, MACHINES))
    traces.write(trace, tmp_path / "machines.jsonl.gz")
    assert traces.read(tmp_path / "machines.jsonl.gz").names == trace.names
