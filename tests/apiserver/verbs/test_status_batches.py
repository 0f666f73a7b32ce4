"""A batch of statuses has the result of single patches, for every kind of writer."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import times
from rota.apiserver.registry.status_templates import StatusTemplateCache
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock

PODS = "/api/v1/namespaces/default/pods"
BATCHES = "/apis/rota.dev/v1alpha1/podstatusbatches"
NODE = ("system:node:n1", "system:nodes")


async def _nodes(api: ApiServer) -> None:
    for node in ("n1", "n2"):
        assert (await api.post("/api/v1/nodes", {"metadata": {"name": node}})).code == 201
        status = {"status": {"allocatable": {"cpu": "100", "pods": "1000"}}}
        assert (await api.patch(f"/api/v1/nodes/{node}/status", status)).code == 200


async def _bound(api: ApiServer, *names: str, node: str = "n1", container: str = "c") -> dict[str, str]:
    """Pods on a node; their uids."""
    uids = {}
    for name in names:
        spec = {"containers": [{"name": container, "image": "i"}], "restartPolicy": "Never"}
        made = await api.post(PODS, {"metadata": {"name": name}, "spec": spec})
        uids[name] = made.json["metadata"]["uid"]
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        assert (await api.post(f"{PODS}/{name}/binding", binding)).code == 201
    return uids


def _status(phase: str, uid: str, now: float, *, container: str = "c", code: int = 0) -> dict[str, Any]:
    moment = times.format_time(now)
    state = {"running": {"startedAt": moment}}
    if phase in {"Succeeded", "Failed"}:
        state = {"terminated": {"startedAt": moment, "finishedAt": moment, "exitCode": code}}  # type: ignore[dict-item]
    conditions = [
        {"type": kind, "status": str(phase == "Running"), "lastTransitionTime": moment} for kind in ("Ready", "Other")
    ]
    return {
        "phase": phase,
        "startTime": moment,
        "podIP": "127.0.0.1",
        "conditions": conditions,
        "containerStatuses": [
            {"name": container, "containerID": f"rota://{uid}_{container}_0", "state": state, "image": "i",
             "imageID": "", "ready": phase == "Running", "restartCount": 0}
        ],
    }  # fmt: skip


def _report(name: str, uid: str, status: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name, "uid": uid}, "status": status}


async def _told(api: ApiServer, *reports: dict[str, Any], **query: object) -> list[dict[str, Any]]:
    answer = await api.post(BATCHES, {"statuses": list(reports)}, **query)
    assert answer.code == 201, answer
    return [one["status"] for one in answer.json["verdicts"]]


def _but_for_itself(pod: dict[str, Any]) -> Any:
    uid = pod["metadata"]["uid"]
    del pod["metadata"]["resourceVersion"], pod["metadata"]["name"]
    return json.loads(json.dumps(pod).replace(uid, "UID"))


@pytest.mark.parametrize("seed", range(4))
async def test_pods_end_as_if_each_status_had_been_patched(seed: int) -> None:
    rng, clock = random.Random(seed), FakeClock()
    async with ApiServer(clock=clock) as server:
        await _nodes(server)
        api = server.acting_as(*NODE)
        known = server.app.registry.status_templates
        printed, tell = 0, known.printed

        def counted(case: Any) -> bytes | None:
            nonlocal printed
            found = tell(case)
            printed += found is not None
            return found

        known.printed = counted  # type: ignore[method-assign]
        for turn in range(20):
            batched = [f"b{turn}-{number}" for number in range(4)]
            single = [name.replace("b", "s") for name in batched]
            uids = await _bound(server, *batched, *single, container=rng.choice(["c", "c", "c", batched[0]]))
            container = (await server.get(f"{PODS}/{batched[0]}")).json["spec"]["containers"][0]["name"]
            await clock.advance(rng.choice([0.0, 1.0]))
            for phase in rng.choice([("Succeeded",), ("Running", "Succeeded"), ("Running", "Failed")]):
                now = clock.now()
                await clock.advance(rng.choice([0.0, 1.0]))
                reports = [
                    _report(one, uids[one], _status(phase, uids[one], now, container=container)) for one in batched
                ]
                assert {one["status"] for one in await _told(api, *reports)} == {"Success"}
                for name in single:
                    patch = {
                        "metadata": {"uid": uids[name]},
                        "status": _status(phase, uids[name], now, container=container),
                    }
                    assert (await api.patch(f"{PODS}/{name}/status", patch, kind="strategic")).code == 200
            for one, other in zip(batched, single, strict=True):
                ours, theirs = (await server.get(f"{PODS}/{one}")).json, (await server.get(f"{PODS}/{other}")).json
                assert _but_for_itself(ours) == _but_for_itself(theirs)
        assert printed >= 30


async def test_each_pod_gets_a_verdict_of_its_own(api: ApiServer) -> None:
    await _nodes(api)
    uids = await _bound(api, "a", "b", "c", "d", "e")
    for turn in range(3):
        await _told(api, *(_report(one, uids[one], _status("Running", uids[one], turn)) for one in "abcde"))
    await api.delete(f"{PODS}/d", {"gracePeriodSeconds": 0})
    other = "00000000-0000-0000-0000-000000000000"
    reports = [_report(one, uids[one], _status("Succeeded", uids[one], 9.0)) for one in "abcd"]
    reports[1]["metadata"]["uid"] = other
    reports[2]["status"]["conditions"] = "none"
    reports[3]["metadata"]["namespace"] = "elsewhere"
    reports.append(_report("d", uids["d"], {"phase": "Failed"}))
    codes = [one["code"] for one in await _told(api, *reports)]
    assert codes[0] == 200
    assert codes[1] == 409
    assert codes[2] in {400, 422}
    assert codes[3:] == [404, 404]
    assert (await api.get(f"{PODS}/a")).json["status"]["phase"] == "Succeeded"
    assert (await api.get(f"{PODS}/b")).json["status"]["phase"] == "Running"


async def test_a_node_reports_its_own_pods_only_even_in_a_batch(api: ApiServer) -> None:
    await _nodes(api)
    mine = [f"m{number}" for number in range(4)]
    uids = await _bound(api, *mine) | await _bound(api, "theirs", node="n2")
    node = api.acting_as(*NODE)
    for name in mine:
        (verdict,) = await _told(node, _report(name, uids[name], _status("Running", uids[name], 5.0)))
        assert verdict["code"] == 200
    (verdict,) = await _told(node, _report("theirs", uids["theirs"], _status("Running", uids["theirs"], 5.0)))
    assert verdict["code"] == 403
    assert "can only update pod status for pods with spec.nodeName set to itself" in verdict["message"]
    labels = {"metadata": {"namespace": "default", "name": "m0", "uid": uids["m0"], "labels": {"x": "y"}}, "status": {}}
    await _told(node, labels)
    assert "labels" not in (await api.get(f"{PODS}/m0")).json["metadata"]


async def test_other_users_need_rights_to_batches_and_statuses(api: ApiServer) -> None:
    somebody = api.acting_as("somebody")
    assert (await somebody.post(BATCHES, {"statuses": []})).code == 403
    rules = [{"apiGroups": ["rota.dev"], "resources": ["*"], "verbs": ["*"]}]
    rights = "/apis/rbac.authorization.k8s.io/v1"
    assert (await api.post(f"{rights}/clusterroles", {"metadata": {"name": "r"}, "rules": rules})).code == 201
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody"}],
    }
    assert (await api.post(f"{rights}/clusterrolebindings", binding)).code == 201
    refused = await somebody.post(BATCHES, {"statuses": []})
    assert refused.code == 403
    assert "pods/status" in refused.json["message"]
    rules.append({"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]})
    assert (await api.patch(f"{rights}/clusterroles/r", {"rules": rules})).code == 200
    assert (await somebody.post(BATCHES, {"statuses": []})).code == 201


async def test_a_status_that_lost_a_race_is_merged_into_what_is_there(api: ApiServer) -> None:
    await _nodes(api)
    names = [f"p{number}" for number in range(6)]
    uids = await _bound(api, *names)
    for name in names[:4]:
        await _told(api, _report(name, uids[name], _status("Succeeded", uids[name], 5.0)))
    registry, raced = api.app.registry, False
    commit = registry.commit

    async def late(at: Any, transaction: Any) -> Any:
        nonlocal raced
        if not raced:
            raced = True
            await api.patch(f"{PODS}/p4", {"metadata": {"labels": {"meanwhile": "yes"}}})
        return await commit(at, transaction)

    registry.commit = late  # type: ignore[method-assign]
    verdicts = await _told(api, *(_report(one, uids[one], _status("Succeeded", uids[one], 6.0)) for one in names[4:]))
    assert [one["code"] for one in verdicts] == [200, 200]
    changed = (await api.get(f"{PODS}/p4")).json
    assert changed["metadata"]["labels"] == {"meanwhile": "yes"}
    assert changed["status"]["phase"] == "Succeeded"


async def test_watchers_see_each_change_once(api: ApiServer) -> None:
    await _nodes(api)
    names = [f"p{number}" for number in range(8)]
    uids = await _bound(api, *names)
    version = (await api.get(PODS)).json["metadata"]["resourceVersion"]
    async with api.watch(PODS, resourceVersion=version) as events:
        for half in (names[:4], names[4:]):
            await _told(api, *(_report(one, uids[one], _status("Succeeded", uids[one], 5.0)) for one in half))
        seen = await events.take(8)
        assert sorted(one["object"]["metadata"]["name"] for one in seen) == names
        assert {one["object"]["status"]["phase"] for one in seen} == {"Succeeded"}
        assert not events.pending()


async def test_a_status_that_says_nothing_new_is_no_change(api: ApiServer) -> None:
    await _nodes(api)
    names = [f"p{number}" for number in range(4)]
    uids = await _bound(api, *names)
    reports = [_report(one, uids[one], _status("Running", uids[one], 5.0)) for one in names]
    await _told(api, *reports)
    before = (await api.get(PODS)).json
    for _ in range(3):
        assert {one["code"] for one in await _told(api, *reports)} == {200}
    assert (await api.get(PODS)).json["items"] == before["items"]


async def test_a_time_that_there_is_not_is_refused_though_others_were_taken(api: ApiServer) -> None:
    await _nodes(api)
    names = [f"p{number}" for number in range(5)]
    uids = await _bound(api, *names)
    for name in names[:4]:
        await _told(api, _report(name, uids[name], {"phase": "Running", "startTime": "1970-02-01T00:00:00Z"}))
    status = {"phase": "Running", "startTime": "1970-02-31T00:00:00Z"}
    (verdict,) = await _told(api, _report("p4", uids["p4"], status))
    alone = await api.patch(f"{PODS}/p4/status", {"status": status}, kind="strategic")
    assert verdict["code"] == alone.code >= 400


async def test_a_name_is_not_taken_for_a_field_of_others(api: ApiServer) -> None:
    await _nodes(api)
    uids = await _bound(api, "message", "reason", "p")
    for name in ("message", "reason"):
        for _ in range(2):
            await _told(api, _report(name, uids[name], {"phase": "Running", name: "x"}))
    await _told(api, _report("p", uids["p"], {"phase": "Running", "p": "x"}))
    assert "p" not in (await api.get(f"{PODS}/p")).json["status"]


async def test_a_dry_run_writes_nothing(api: ApiServer) -> None:
    await _nodes(api)
    uids = await _bound(api, "a")
    (verdict,) = await _told(api, _report("a", uids["a"], {"phase": "Running"}), dryRun="All")
    assert verdict["code"] == 200
    assert (await api.get(f"{PODS}/a")).json["status"]["phase"] == "Pending"


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ([_report("a", "", {})], 422),
        ([_report("", "u", {})], 422),
        ([_report("a", "u", {}), _report("a", "u", {})], 422),
        ([_report(f"a{number}", "u", {}) for number in range(1025)], 422),
        ([{"metadata": {"namespace": "d", "name": "a", "uid": "u"}}], 400),
        ("none", 400),
        ([_report("a", "u", {})], 201),
    ],
)
async def test_what_makes_no_sense_is_refused_as_a_whole(api: ApiServer, statuses: Any, code: int) -> None:
    assert (await api.post(BATCHES, {"statuses": statuses})).code == code


# --- what is remembered -----------------------------------------------------------------------------------------------

_UID = "12345678-9abc-def0-1234-56789abcdef0"
_OTHER_UID = "fedcba98-9abc-def0-1234-56789abcdef0"


def _function(value: bytes, patch: bytes, now: str) -> bytes:
    """A function that copies, compares and sorts literals, as a status write does."""
    old, new = json.loads(value), json.loads(patch)
    moments = sorted([*old["times"], *new["times"], now])
    result = {
        "name": old["name"],
        "same": old["uid"] == new["uid"],
        "uid": old["uid"],
        "text": f"{new['uid']}_x",
        "times": moments,
        "kept": [one for one in old["times"] if one in new["times"]],
    }
    return json.dumps(result, separators=(",", ":")).encode()


_moments = st.lists(st.integers(0, 4).map(lambda at: f"2026-01-01T00:00:0{at}Z"), max_size=3)


@given(old=st.lists(_moments, min_size=12, max_size=12), new=_moments, now=st.integers(0, 4))
def test_what_is_filled_in_is_what_would_have_been_worked_out(old: list[list[str]], new: list[str], now: int) -> None:
    known = StatusTemplateCache()
    moment = times.parse(f"2026-01-01T00:00:0{now}Z")
    for number, found in enumerate(old * 3):
        name, uid = f"p{number}", _UID if number % 2 else _OTHER_UID
        value = json.dumps({"name": name, "uid": uid, "times": found}, separators=(",", ":")).encode()
        patch = json.dumps({"uid": uid, "times": new}, separators=(",", ":")).encode()
        case = known.case(value, patch, name=name, uid=uid, node=None, by="x", now=moment)
        assert case is not None
        worked_out = _function(value, patch, times.format_time(moment))
        assert known.printed(case) in {None, worked_out}
        known.learn(case, worked_out)
        if number >= 2 * len(old):
            assert known.printed(case) == worked_out


@pytest.mark.parametrize(
    "value",
    [
        b'{"time":"2026-01-01T00:00:00.5Z"}',
        b'{"text":"' + b"x" * 20_000 + b'"}',
        b'{"text":"\x01"}',
        b'{"p" : 1}',
    ],
)
def test_indistinguishable_statuses_share_no_template(value: bytes) -> None:
    assert StatusTemplateCache().case(value, b"{}", name="p", uid=_UID, node=None, by="x", now=0.0) is None
    assert StatusTemplateCache().case(b"{}", value, name="p", uid=_UID, node=None, by="x", now=0.0) is None


def test_nor_is_a_write_that_insists_on_a_version_or_an_odd_name() -> None:
    known = StatusTemplateCache()
    assert known.case(b"{}", b'{"resourceVersion":"1"}', name="p", uid=_UID, node=None, by="x", now=0.0) is None
    assert known.case(b"{}", b"{}", name="10.0.0.1", uid=_UID, node=None, by="x", now=0.0) is None
    assert known.case(b"{}", b"{}", name='p"', uid=_UID, node=None, by="x", now=0.0) is None
    assert known.case(b"{}", b"{}", name="p", uid="u", node=None, by="x", now=0.0) is None
    assert known.case(b"{}", b"{}", name="p", uid=_UID, node="p", by="x", now=0.0) is None


def test_bytes_with_a_time_from_nowhere_are_not_remembered() -> None:
    known = StatusTemplateCache()
    case = known.case(b"{}", b"{}", name="p", uid=_UID, node=None, by="x", now=0.0)
    assert case is not None
    for _ in range(3):
        known.learn(case, b'{"time":"2026-01-01T00:00:07Z"}')
    assert known.printed(case) is None
