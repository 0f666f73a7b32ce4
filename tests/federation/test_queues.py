"""Which waiting bindings a federated queue admits."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rota.api import meta
from rota.federation import queues


def queue(cpu: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "gpu"}, "spec": {"capacity": {"cpu": cpu}, **spec}}


def binding(name: str, cpu: str, *, replicas: int = 1, at: int = 0, waits: bool = True, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "creationTimestamp": f"2026-01-01T00:00:{at:02}Z",
            "annotations": {queues.QUEUE: "gpu"},
        },
        "spec": {
            "replicas": replicas,
            "replicaRequirements": {"resourceRequest": {"cpu": cpu}},
            **({"suspension": {"scheduling": True}} if waits else {}),
            **spec,
        },
    }


def placed(name: str, cpu: str, *clusters: str, status: Any = None) -> dict[str, Any]:
    found = binding(name, cpu, waits=False, clusters=[{"name": one, "replicas": 1} for one in clusters])
    items = [{"clusterName": one, "status": status} for one in clusters]
    return {**found, "status": {"aggregatedStatus": items}}


def names(found: list[Any]) -> list[str]:
    return [meta.name(one) for one in found]


def test_all_replicas_fit_or_none_is_admitted() -> None:
    members = [binding("runs", "1", waits=False), binding("gang", "1", replicas=4)]
    assert queues.admission(queue("4"), members).admitted == []
    assert names(queues.admission(queue("5"), members).admitted) == ["gang"]


def test_one_that_can_never_fit_holds_up_none() -> None:
    found = queues.admission(queue("4"), [binding("huge", "5"), binding("later", "1", at=1)])
    assert names(found.admitted) == ["later"]
    (waiting,) = found.waiting
    assert waiting[1] == "asks for more cpu than queue gpu has; lower the requests or raise it"


def test_one_that_does_not_fit_yet_is_not_overtaken() -> None:
    members = [binding("runs", "2", waits=False), binding("large", "3", at=1), binding("small", "1", at=2)]
    found = queues.admission(queue("4"), members)
    assert found.admitted == []
    assert [why for _, why in found.waiting] == [
        "waits until queue gpu has enough cpu",
        "waits in queue gpu behind others",
    ]
    assert (found.running, found.used) == (1, {"cpu": 2000})


def test_priorities_come_before_times() -> None:
    members = [
        binding("first", "1"),
        binding("urgent", "1", at=2, schedulePriority={"priority": 10}),
        binding("second", "1", at=1),
    ]
    assert names(queues.admission(queue("2"), members).admitted) == ["urgent", "first"]


def test_a_suspended_queue_admits_none() -> None:
    found = queues.admission(queue("4", suspended=True), [binding("a", "1")])
    assert (found.admitted, found.waiting[0][1]) == ([], "queue gpu is suspended")


def test_each_cluster_of_a_duplicated_workload_counts_and_ended_jobs_do_not() -> None:
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    running = placed("everywhere", "1", "m1", "m2")
    assert queues.admission(queue("4"), [running]).used == {"cpu": 2000}
    assert queues.admission(queue("4"), [placed("done", "1", "m1", "m2", status=ended)]).used == {}
    assert (
        queues.admission(queue("4"), [placed("volcano", "1", "m1", status={"state": {"phase": "Aborted"}})]).used == {}
    )
    for garbage in ("x", {"conditions": "x", "state": "x"}, {"conditions": ["x", {"type": "Complete"}]}):
        assert queues.admission(queue("4"), [placed("odd", "1", "m1", status=garbage)]).used == {"cpu": 1000}


_bindings = st.lists(
    st.builds(
        lambda cpu, replicas, at, waits, priority: (cpu, replicas, at, waits, priority),
        st.integers(1, 5),
        st.integers(1, 3),
        st.integers(0, 20),
        st.booleans(),
        st.integers(0, 2),
    ),
    max_size=8,
)


@given(_bindings, st.integers(0, 12))
def test_admissions_never_exceed_the_capacity_and_come_to_an_end(drawn: list[Any], capacity: int) -> None:
    members = [
        binding(f"b{n}", str(cpu), replicas=count, at=at, waits=waits, schedulePriority={"priority": priority})
        for n, (cpu, count, at, waits, priority) in enumerate(drawn)
    ]
    before = queues.admission(queue(str(capacity)), [one for one in members if not queues.is_waiting(one)]).used
    found = queues.admission(queue(str(capacity)), members)
    if found.admitted:
        assert found.used["cpu"] <= capacity * 1000
    else:
        assert found.used == before
    assert len(found.admitted) + len(found.waiting) == sum(map(queues.is_waiting, members))
    # once everything that runs is over, all that fits at all is admitted
    rounds = 0
    while members and rounds < 20:
        found = queues.admission(queue(str(capacity)), [one for one in members if queues.is_waiting(one)])
        members = [dict(one) for one, _ in found.waiting]
        rounds += 1
        if not found.admitted:
            break
    assert all(queues.usage(one["spec"])["cpu"] > capacity * 1000 for one in members)
