import msgspec

from rota.apiserver.node_allocations import overcommit_guard, pod_index, pod_shares
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
