import msgspec

from rota.apiserver.node_allocations import overcommit_guard, pod_index, pod_shares, queue_index
from rota.apiserver.node_allocations.queue_index import QueueState
from rota.store.store_interface import Batch, Event


def _pod(node: str = "", phase: str = "Pending", cpu: str = "1") -> bytes:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    return msgspec.json.encode({"spec": {**spec, **({"nodeName": node} if node else {})}, "status": {"phase": phase}})


def _event(revision: int, value: bytes | None, key: str = "/core/pods/default/a") -> Event:
    return Event(key=key, revision=revision, value=value, created=1, previous=None)


def _cpu(state: pod_index._State, node: str = "n1") -> int:
    return state.usage[node].amounts.get("cpu", 0) if node in state.usage else 0


def test_what_the_watch_tells_late_does_not_undo_a_binding_that_is_known() -> None:
    state = pod_index._State()
    share = pod_shares.PodAllocation({"cpu": 1000})
    state.put("/core/pods/default/a", ("n1", share))
    state.ahead["/core/pods/default/a"], state.sure["ledger"] = 7, 7
    state.take(Batch([_event(6, _pod())], 6))
    assert _cpu(state) == 1000
    state.take(Batch([_event(7, _pod("n1"))], 7))
    assert (_cpu(state), state.ahead, state.sure) == (1000, {}, {})
    state.take(Batch([_event(8, _pod("n1", "Succeeded"))], 8))
    assert state.usage == {}


def test_a_pod_counts_while_it_is_bound_and_has_not_finished() -> None:
    assert pod_shares.of_stored(_pod()) is None
    assert pod_shares.of_stored(_pod("n1", "Failed")) is None
    assert pod_shares.of_stored(_pod("n1", "Running", "250m")) == ("n1", pod_shares.PodAllocation({"cpu": 250}))


def test_usage_is_what_is_left_after_all_that_came_and_went() -> None:
    one, two = pod_shares.PodAllocation({"cpu": 100, "memory": 5}), pod_shares.PodAllocation({"cpu": 50})
    usage = pod_shares.total([one, two])
    usage.remove(one)
    assert (usage.pods, usage.amounts) == (1, {"cpu": 50})
    usage.remove(two)
    assert usage == pod_shares.NodeAllocation()


def test_nodes_share_a_bounded_number_of_ledger_keys() -> None:
    keys = overcommit_guard.keys_of(f"node-{number}" for number in range(50_000))
    assert len(keys) == 4096
    assert all(key.startswith(overcommit_guard.PREFIX) for key in keys)
    assert overcommit_guard.keys_of(["a", "b"]) == overcommit_guard.keys_of(["b", "a", "a"])


def test_users_of_claims_and_allocations_of_groups_end_with_their_pods() -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "tmp", "ephemeral": {}}]
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}], "volumes": volumes}
    annotations = {"scheduling.k8s.io/group-name": "train"}
    pod = {"metadata": {"annotations": annotations}, "spec": {**spec, "nodeName": "n1"}, "status": {}}
    state = pod_index._State()
    state.take(Batch([_event(2, msgspec.json.encode(pod))], 2))
    assert state.claims == {"default/data": {"/core/pods/default/a"}, "default/a-tmp": {"/core/pods/default/a"}}
    assert {group: one.amounts for group, one in state.groups.items()} == {"default/train": {"cpu": 2000}}
    state.take(Batch([_event(3, None)], 3))
    assert (state.claims, state.groups, state.usage) == ({}, {}, {})


def test_a_capability_that_is_no_quantity_limits_nothing() -> None:
    """It must not end the index, without which no pod of a group is bound."""
    state = QueueState()
    capability = {"cpu": "1e99999999", "memory": "1Gi"}
    state.put(f"{queue_index.PREFIX}queues/q", msgspec.json.encode({"spec": {"capability": capability}}))
    assert state.queues["q"].capability == {"memory": 2**30}


def test_a_queue_limits_the_groups_in_it_and_below_it() -> None:
    state = QueueState()
    for name, spec in {
        "top": {"capability": {"cpu": "4", "memory": "0", "pods": "3"}},
        "low": {"parent": "top"},
        "other": {},
    }.items():
        state.put(f"{queue_index.PREFIX}queues/{name}", msgspec.json.encode({"spec": spec}))
    for group, queue in {"a": "top", "b": "low", "c": "other"}.items():
        state.put(f"{queue_index.PREFIX}podgroups/default/{group}", msgspec.json.encode({"spec": {"queue": queue}}))
    two = pod_shares.PodAllocation({"cpu": 2000, "memory": 10**12})
    taken = state.totals({f"default/{group}": pod_shares.total([two]) for group in "abc"})
    assert taken == {"top": {"pods": 2, "cpu": 4000, "memory": 2 * 10**12}}
    found = state.excess("default/b", two, taken)
    assert found is not None
    assert found.message == "queue top has 4 of cpu, 4 taken, 2 requested"
    assert state.excess("default/c", two, taken) is None
    nothing = pod_shares.PodAllocation({})
    assert state.excess("default/b", nothing, taken) is None
    taken["top"]["pods"] = 3
    assert state.excess("default/a", nothing, taken) is not None
    state.put(f"{queue_index.PREFIX}podgroups/default/b", None)
    assert state.limited("default/b") == []
