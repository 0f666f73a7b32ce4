"""`rota decide`: scenarios and dumps in, decisions out, and what bad input gets."""

import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.cli.main import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Rota = Callable[..., Outcome]


@pytest.fixture
def rota(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Rota:
    def run(*arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main(["decide", *arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


def node(name: str, *, cpu: str = "4", **fields: Any) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}, **fields}


def pod(name: str, *, cpu: str = "1", on: str = "", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    where = {"nodeName": on} if on else {}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [container], **where, **spec},
        "status": {"phase": "Running" if on else "Pending"},
    }


def scenario(name: str = "s", **fields: Any) -> dict[str, Any]:
    return {"id": name, "nodes": [node("a"), node("b", cpu="8")], "pods": [], "pod": pod("web"), **fields}


def lines(*scenarios: dict[str, Any] | str) -> str:
    return "\n".join(each if isinstance(each, str) else json.dumps(each) for each in scenarios)


CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


# --- scenarios --------------------------------------------------------------------------------------------------------


def test_every_line_gets_one_answer_with_verdicts_scores_and_the_best_nodes(rota: Rota) -> None:
    done = rota(stdin=lines(scenario("one"), "", scenario("two", pods=[pod("big", cpu="7", on="b")])))
    assert (done.code, done.err) == (0, "")
    one, two = done.answers
    assert list(one) == ["id", "filter", "scores", "best"]
    assert one["filter"] == {"a": {"code": "Success"}, "b": {"code": "Success"}}
    assert one["best"] == ["b"]
    assert one["scores"]["b"]["total"] == sum(v for k, v in one["scores"]["b"].items() if k != "total")
    assert (two["id"], two["best"]) == ("two", ["a"])


def test_a_pod_that_fits_nowhere_gets_a_reason_for_every_node(rota: Rota) -> None:
    tainted = node("b", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})
    (answer,) = rota(stdin=lines(scenario(nodes=[node("a", cpu="500m"), tainted]))).answers
    assert answer == {
        "id": "s",
        "filter": {
            "a": {
                "code": "UnschedulableAndUnresolvable",
                "plugin": "NodeResourcesFit",
                "reasons": ["Insufficient cpu"],
            },
            "b": {
                "code": "UnschedulableAndUnresolvable",
                "plugin": "TaintToleration",
                "reasons": ["node(s) had untolerated taint(s)"],
            },
        },
    }


def test_preemption_names_the_node_and_the_victims(rota: Rota) -> None:
    full = [pod("low", cpu="4", on="a", priority=1), pod("high", cpu="8", on="b", priority=100)]
    (answer,) = rota(stdin=lines(scenario(pods=full, pod=pod("web", priority=10)))).answers
    assert (answer["nominated"], answer["victims"]) == ("a", ["default/low"])
    assert "scores" not in answer


def test_a_scenario_may_bring_its_own_configuration(rota: Rota) -> None:
    args = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
    config = {**CONFIG, "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}]}
    usual, packing = rota(stdin=lines(scenario(), scenario(config=config))).answers
    assert usual["best"] == ["b"]
    assert packing["scores"]["a"]["NodeResourcesFit"] > packing["scores"]["b"]["NodeResourcesFit"]


def test_scenarios_come_from_files_compressed_or_not(rota: Rota, tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.jsonl", tmp_path / "packed.jsonl.gz"
    plain.write_text(lines(scenario("one")))
    packed.write_bytes(gzip.compress(lines(scenario("two")).encode()))
    assert [answer["id"] for answer in rota(str(plain), str(packed)).answers] == ["one", "two"]


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ({"nodes": [node("a", cpu="four")]}, "nodes[0].status.allocatable.cpu: quantities must match"),
        ({"nodes": [{"metadata": {}}]}, "nodes[0].metadata.name: is required"),
        ({"nodes": [{"metadata": {"name": "a", "labels": {"x": 1}}}]}, "nodes[0].metadata.labels.x: Expected str"),
        ({"nodes": {}}, "nodes: expected a list"),
        ({"pods": [pod("a", on="a"), 7]}, "pods[1]: expected an object"),
        ({"pod": None}, "pod: is required"),
        ({"pod": pod("web", cpu="-1")}, "pod.spec.containers[0].resources.requests.cpu: must not be negative"),
        ({"pod": pod("web", priority="high")}, "pod.spec.priority: Expected int"),
        ({"pod": pod("web", volumes=[{"name": "v", "persistentVolumeClaim": "x"}])}, "pod.spec.volumes[0].persistent"),
        ({"pdbs": [{"metadata": {"name": "p"}, "spec": {"selector": 1}}]}, "pdbs[0].spec.selector: Expected object"),
        ({"namespaces": [{}]}, "namespaces[0].metadata: is required"),
        ({"config": CONFIG | {"profiles": [{"plugin": {}}]}}, "config.profiles[0].plugin: unknown field"),
    ],
)
def test_a_malformed_line_is_answered_with_the_path_and_the_others_go_on(
    rota: Rota, broken: dict[str, Any], error: str
) -> None:
    done = rota(stdin=lines(scenario("before"), scenario("broken", **broken), scenario("after")))
    before, answer, after = done.answers
    assert done.code == 3
    assert answer["id"] == "broken"
    assert set(answer) == {"id", "error"}
    assert answer["error"].startswith(error)
    assert {**before, "id": ""} == {**after, "id": ""}
    assert before["best"] == ["b"]


@pytest.mark.parametrize("line", ["{", "[1]", "null", '"x"'])
def test_a_line_that_is_no_object_is_answered_by_number(rota: Rota, line: str) -> None:
    done = rota(stdin=lines(scenario(), line))
    assert done.code == 3
    assert done.answers[1]["id"] is None
    assert done.answers[1]["error"].startswith("line 2: ")


def test_no_input_is_no_output(rota: Rota) -> None:
    assert rota() == Outcome(0, "", "")


# --- what would happen if ---------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str, object], str]:
    def write(name: str, content: object) -> str:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


Files = Callable[[str, object], str]


def test_a_dump_and_a_manifest_give_one_decision(rota: Rota, files: Files) -> None:
    items = [node("a"), node("b", cpu="8"), pod("old", cpu="7", on="b"), pod("waiting", cpu="100")]
    done_pod = {**pod("done", cpu="4", on="a"), "status": {"phase": "Succeeded"}}
    dump = files("now.json", {"apiVersion": "v1", "kind": "List", "items": [*items, done_pod]})
    manifest = files("web.yaml", yaml.safe_dump(pod("web")))
    (answer,) = rota("--cluster", dump, "--pod", manifest).answers
    assert (answer["id"], answer["best"]) == ("default/web", ["a"])


def test_a_dump_may_be_several_files_and_documents(rota: Rota, files: Files) -> None:
    nodes = files("nodes.yaml", "\n---\n".join(yaml.safe_dump(node(name)) for name in ("a", "b")))
    unkinded = {key: value for key, value in pod("old", cpu="3", on="a").items() if key != "kind"}
    pods = files("pods.json", {"kind": "PodList", "items": [unkinded]})
    manifest = files("web.json", pod("web"))
    (answer,) = rota("--cluster", nodes, "--cluster", pods, "--pod", manifest).answers
    assert answer["best"] == ["b"]


def test_unquoted_times_in_yaml_stay_strings(rota: Rota, files: Files) -> None:
    document = node("a")
    document["metadata"]["creationTimestamp"] = "TIME"
    dump = files("now.yaml", yaml.safe_dump(document).replace("TIME", "2026-01-01T00:00:00Z"))
    assert rota("--cluster", dump, "--pod", files("web.json", pod("web"))).answers[0]["best"] == ["a"]


def test_volumes_of_the_dump_count(rota: Rota, files: Files) -> None:
    affinity = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["b"]}]}]}
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"volumeName": "v", "accessModes": ["ReadWriteOnce"]},
    }
    volume = {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": affinity}}}
    nodes = [node("a"), {**node("b"), "metadata": {"name": "b", "labels": {"disk": "b"}}}]
    dump = files("now.json", {"kind": "List", "items": [*nodes, claim, volume]})
    wanting = pod("web", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    (answer,) = rota("--cluster", dump, "--pod", files("web.json", wanting)).answers
    assert answer["best"] == ["b"]
    assert answer["filter"]["a"]["plugin"] == "VolumeBinding"


@pytest.mark.parametrize(
    ("classes", "name", "evicts"),
    [
        ([{"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 50}], "urgent", True),
        ([{"kind": "PriorityClass", "metadata": {"name": "meek"}, "value": 1}], "meek", False),
        ([{"kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 50, "globalDefault": True}], None, True),
        (
            [
                {
                    "kind": "PriorityClass",
                    "metadata": {"name": "polite"},
                    "value": 50,
                    "preemptionPolicy": "Never",
                }
            ],
            "polite",
            False,
        ),
        ([], "system-node-critical", True),
        ([], None, False),
    ],
)
def test_the_priority_of_the_pod_comes_from_its_class(
    rota: Rota, files: Files, classes: list[dict[str, Any]], name: str | None, evicts: bool
) -> None:
    dump = files("now.json", {"kind": "List", "items": [node("a"), pod("old", cpu="4", on="a", priority=10), *classes]})
    wanting = pod("web", **({"priorityClassName": name} if name else {}))
    (answer,) = rota("--cluster", dump, "--pod", files("web.json", wanting)).answers
    assert ("nominated" in answer) is evicts


def test_the_profile_is_chosen_by_scheduler_name(rota: Rota, files: Files) -> None:
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    packing = {
        "schedulerName": "packing",
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}],
    }
    config = files("sched.yaml", yaml.safe_dump({**CONFIG, "profiles": [{"schedulerName": "spreading"}, packing]}))
    dump = files("now.json", {"kind": "List", "items": [node("a"), node("b", cpu="8")]})
    best = {}
    for name in ("spreading", "packing"):
        manifest = files("web.json", pod("web", schedulerName=name))
        (answer,) = rota("--cluster", dump, "--pod", manifest, "--scheduler-config", config).answers
        best[name] = max(answer["scores"], key=lambda each, got=answer: got["scores"][each]["NodeResourcesFit"])  # type: ignore[misc]
    assert best == {"spreading": "b", "packing": "a"}
    done = rota("--cluster", dump, "--pod", files("web.json", pod("web")), "--scheduler-config", config)
    assert done.code == 2
    assert done.err == (
        'rota: no profile is for schedulerName "default-scheduler" of default/web; '
        "set it to one of spreading, packing\n"
    )


PLUGIN = '''
class Backwards:
    """Likes nodes late in the alphabet."""
    name = "Backwards"
    def __init__(self, args, handle):
        pass
    def score(self, state, pod, node):
        return ord(node.name[0]) - ord("a")
class Clumsy:
    name = "Clumsy"
    def __init__(self, args, handle):
        pass
    def filter(self, state, pod, node):
        raise RuntimeError("oops")
'''


def with_plugin(files: Files, path: str) -> str:
    files("beside_config.py", PLUGIN)
    section = {"enabled": [{"name": path, "weight": 100}]}
    return files("sched.yaml", yaml.safe_dump({**CONFIG, "profiles": [{"plugins": {"multiPoint": section}}]}))


def test_a_plugin_beside_the_configuration_file_is_loaded(rota: Rota, files: Files) -> None:
    config = with_plugin(files, "beside_config:Backwards")
    (answer,) = rota(
        "--scheduler-config", config, stdin=lines(scenario(nodes=[node("a", cpu="64"), node("z")]))
    ).answers
    assert answer["best"] == ["z"]
    assert answer["scores"]["z"]["Backwards"] == 2500


def test_a_plugin_that_raises_is_an_error_under_its_name(rota: Rota, files: Files) -> None:
    done = rota("--scheduler-config", with_plugin(files, "beside_config:Clumsy"), stdin=lines(scenario()))
    assert done.code == 3
    assert done.answers == [{"id": "s", "error": "plugin Clumsy failed: RuntimeError: oops"}]


# --- for people -------------------------------------------------------------------------------------------------------


def test_the_table_shows_the_outcome_and_every_node_best_first(rota: Rota) -> None:
    tainted = node("c", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})
    done = rota("--table", stdin=lines(scenario(nodes=[node("a"), node("b", cpu="8"), tainted])))
    told, _, head, best, other, refused, *_ = done.out.splitlines()
    assert told.startswith("s would go to b with a score of ")
    assert head.split() == ["NODE", "VERDICT", "TOTAL", "WHY"]
    assert best.split()[:2] == ["b", "best"]
    assert "TaintToleration 300, " in best
    assert other.split()[:2] == ["a", "feasible"]
    assert refused.split(maxsplit=2) == [
        "c",
        "UnschedulableAndUnresolvable",
        "TaintToleration: node(s) had untolerated taint(s)",
    ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"nodes": [node("a"), node("b")]}, "s would go to one of a, b with a score of"),
        (
            {"nodes": [node("a", cpu="1m"), node("b", cpu="1m")]},
            "s has no node: 0/2 nodes are available: 2 Insufficient cpu",
        ),
        (
            {"nodes": [node("a")], "pods": [pod("low", cpu="4", on="a")], "pod": pod("web", priority=10)},
            "s has no node: 0/1 nodes are available: 1 Insufficient cpu; evicting default/low would make room on a",
        ),
        ({"nodes": []}, "s has no node: the cluster has none"),
        (
            {"pod": pod("web", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "gone"}}])},
            's has no node: persistentvolumeclaim "gone" not found',
        ),
        ({"pod": None}, "s: pod: is required"),
    ],
)
def test_the_first_line_of_a_table_says_what_would_happen(rota: Rota, fields: dict[str, Any], told: str) -> None:
    assert rota("--table", stdin=lines(scenario(**fields))).out.startswith(told)


# --- what the user can put right --------------------------------------------------------------------------------------


def test_wrong_options_get_one_line_and_exit_code_2(rota: Rota, files: Files) -> None:
    manifest = files("web.json", pod("web"))
    done = rota("--pod", manifest)
    assert (done.code, done.out) == (2, "")
    assert done.err == "rota: --cluster and --pod belong together; see 'rota decide --help'\n"
    done = rota("--pod", manifest, "--cluster", manifest, manifest)
    assert done.err == "rota: give either scenarios or --cluster and --pod; see 'rota decide --help'\n"
    assert rota("no-such-file").code == 2


@pytest.mark.parametrize(
    ("dump", "manifest", "said"),
    [
        ("a: [", pod("web"), "now.json: not readable as YAML or JSON"),
        ("7", pod("web"), "now.json: expected an object"),
        ({"kind": "List", "items": [node("a"), {"metadata": {}}]}, pod("web"), "now.json.items[1].kind: is required"),
        ({"kind": "List", "items": [node("a", cpu="x")]}, pod("web"), "now.json.items[0].status.allocatable.cpu: "),
        (node("a"), node("a"), "web.json.kind: must be Pod"),
        (node("a"), "", "web.json: holds 0 objects; give the manifest of one pod"),
        (node("a"), pod("web", priorityClassName="vip"), 'the cluster has no PriorityClass "vip"; add it or set'),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    rota: Rota, files: Files, dump: object, manifest: object, said: str
) -> None:
    done = rota("--cluster", files("now.json", dump), "--pod", files("web.json", manifest))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_refused_configuration_names_the_file_and_every_fault(rota: Rota, files: Files) -> None:
    config = files("sched.yaml", yaml.safe_dump({**CONFIG, "parallelism": 0, "percentageOfNodesToScore": 101}))
    done = rota("--scheduler-config", config)
    assert done.code == 2
    assert done.err.endswith(
        "sched.yaml: parallelism: 0 must be greater than 0; percentageOfNodesToScore: 101 is not in 0..100\n"
    )


@pytest.mark.parametrize("indent", [None, 2])
def test_a_dump_in_the_place_of_scenarios_gets_a_hint_and_nothing_else(rota: Rota, indent: int | None) -> None:
    dump = {"apiVersion": "v1", "kind": "List", "items": [node("a")]}
    outcome = rota(stdin=json.dumps(dump, indent=indent))
    assert (outcome.code, outcome.out) == (2, "")
    assert "--cluster" in outcome.err
    assert len(outcome.err.splitlines()) == 1


def batch(name: str = "b", **fields: Any) -> dict[str, Any]:
    conf = 'actions: "enqueue, allocate"\ntiers: [{plugins: [{name: priority}, {name: gang}, {name: predicates}]}]'
    queue = {"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}
    members = [pod(f"g-w-{number}", cpu="2") for number in range(3)]
    for member in members:
        member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 3, "queue": "default"}}
    return {
        "id": name,
        "conf": conf,
        "nodes": [node("a")],
        "pods": members,
        "queues": [queue],
        "podGroups": [group],
        **fields,
    }


def test_groups_are_decided_as_one_session(rota: Rota) -> None:
    room, none = batch("room", nodes=[node("a"), node("b")]), batch("none")
    done = rota(stdin="".join(json.dumps(each) + "\n" for each in (room, none, scenario("single"))))
    assert done.code == 0
    assert [answer["id"] for answer in done.answers] == ["room", "none", "single"]
    assert sorted(done.answers[0]["decision"]["binds"].values()) == ["a", "a", "b"]
    assert done.answers[1]["decision"]["binds"] == {}
    assert done.answers[1]["decision"]["conditions"]["default/g"]["type"] == "Unschedulable"
    assert done.answers[2]["best"] == ["b"]


def test_groups_are_shown_as_tables(rota: Rota) -> None:
    done = rota("--table", stdin=json.dumps(batch(nodes=[node("a", cpu="8")])))
    assert done.code == 0
    assert "default/g-w-0  Bind     a" in done.out
    assert "default/g  Inqueue  tasks in gang are ready to be scheduled" in done.out


def test_a_batch_configuration_is_refused_by_its_path(rota: Rota) -> None:
    bad = batch(conf="actions: allocate\ntiers: [{plugins: [{name: useage}]}]")
    done = rota(stdin=json.dumps(bad) + "\n" + json.dumps(batch("good")))
    assert done.code == 3
    assert done.answers[0]["error"].startswith("conf.tiers[0].plugins[0].name: ")
    assert "decision" in done.answers[1]


def test_a_malformed_group_is_refused_by_its_path(rota: Rota) -> None:
    done = rota(stdin=json.dumps(batch(podGroups=[{"metadata": {"name": "g"}, "spec": {"minMember": "all"}}])))
    assert done.code == 3
    assert done.answers[0]["error"].startswith("podGroups[0].spec.minMember: ")


def dumped(**fields: Any) -> dict[str, Any]:
    """Give a batch scenario as kubectl would dump it."""
    found = batch(**fields)
    volcano = "scheduling.volcano.sh/v1beta1"
    items = [{**each, "apiVersion": "v1"} for each in (*found["nodes"], *found["pods"])]
    items += [{**each, "apiVersion": volcano, "kind": "Queue"} for each in found["queues"]]
    items += [{**each, "apiVersion": volcano, "kind": "PodGroup"} for each in found["podGroups"]]
    items.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}})
    classes = [{"metadata": {"name": "high"}, "value": 1000}]
    items.append({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClassList", "items": classes})
    return {"apiVersion": "v1", "kind": "List", "items": items}


def test_a_dump_is_decided_by_a_batch_configuration(rota: Rota, tmp_path: Path) -> None:
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(batch()["conf"])
    done = rota("--cluster", "-", "--batch-config", str(conf), stdin=json.dumps(dumped(nodes=[node("a", cpu="8")])))
    assert done.code == 0
    assert set(done.answers[0]["decision"]["binds"].values()) == {"a"}
    assert done.answers[0]["decision"]["podGroupPhases"] == {"default/g": "Inqueue"}


def test_a_batch_configuration_for_a_dump_is_refused_by_its_path(rota: Rota, tmp_path: Path) -> None:
    conf = tmp_path / "mine.conf"
    conf.write_text("actions: dance")
    done = rota("--cluster", "-", "--batch-config", str(conf), stdin=json.dumps(dumped()))
    assert done.code == 2
    assert f"{conf}: actions[0]: there is no action" in done.err


@pytest.mark.parametrize(
    "arguments", [("--batch-config", "C"), ("--cluster", "C", "--pod", "C", "--batch-config", "C")]
)
def test_a_batch_configuration_goes_with_a_dump_alone(rota: Rota, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    conf = tmp_path / "c"
    conf.write_text("actions: allocate")
    done = rota(*(str(conf) if each == "C" else each for each in arguments))
    assert done.code == 2
