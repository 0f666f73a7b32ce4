"""Tuning proposals: validation, the names of users, the right to approve, and how they are printed."""

from typing import Any

import pytest

from rota.apiserver.strategies import tuning
from rota.scheduler.tuning import live_figures
from rota.testing.api import ApiServer

PROPOSALS = "/apis/rota.dev/v1alpha1/tuningproposals"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
FIT = {"plugin": "NodeResourcesFit", "from": 1, "to": 3}


def proposal(**spec: Any) -> dict[str, Any]:
    return {"kind": "TuningProposal", "metadata": {"name": "one"}, "spec": {"changes": [FIT], **spec}}


def test_the_figures_of_a_bound_are_those_that_are_read() -> None:
    status = {
        "observedTime": "2030-01-01T00:00:00Z",
        "power": {"watts": 5},
        "resources": [{"resource": "cpu", "record": {"forecasts": 4, "violations": 1}}],
    }
    read = live_figures.read({"status": status}, now=0.0)
    assert read is not None
    assert set(read) == set(tuning.FIGURES)
    assert read["violationRate"] == 0.25


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"changes": []}, "spec.changes"),
        ({"changes": [FIT, FIT]}, "spec.changes[1]"),
        ({"changes": [{**FIT, "to": 1}]}, "spec.changes[0].to"),
        ({"changes": [{"plugin": "NodeResourcesFit", "to": 3}]}, "spec.changes[0].from"),
        ({"changes": [{**FIT, "to": -1}]}, "spec.changes[0].to"),
        ({"changes": [{**FIT, "plugin": ""}]}, "spec.changes[0].plugin"),
        ({"changes": [FIT] * 21}, "spec.changes"),
        ({"bounds": [{"figure": "mood"}]}, "spec.bounds[0].figure"),
        ({"bounds": [{"figure": "pendingPods"}, {"figure": "pendingPods"}]}, "spec.bounds[1].figure"),
        ({"bounds": [{"figure": "pendingPods", "percent": -1}]}, "spec.bounds[0].percent"),
        ({"approve": "perhaps"}, "spec.approve"),
        ({"steps": 0}, "spec.steps"),
        ({"patience": 0}, "spec.patience"),
        ({"evidence": {"comparisons": [{"figure": "x", "verdict": "good"}]}}, "spec.evidence.comparisons[0].verdict"),
        ({"evidence": {"comparisons": [{"figure": "x", "low": 2, "high": 1}]}}, "spec.evidence.comparisons[0].low"),
    ],
)
async def test_a_proposal_that_cannot_be_is_refused_with_its_field(
    api: ApiServer, spec: dict[str, Any], field: str
) -> None:
    answer = await api.post(PROPOSALS, proposal(**spec))
    assert answer.code == 422
    assert field in [cause["field"] for cause in answer.json["details"]["causes"]]


async def test_evidence_stays_with_the_changes_it_is_about(api: ApiServer) -> None:
    await api.post(PROPOSALS, proposal())
    answer = await api.patch(f"{PROPOSALS}/one", {"spec": {"changes": [{**FIT, "to": 9}]}})
    assert answer.code == 422
    assert answer.json["details"]["causes"][0]["field"] == "spec.changes"


async def test_the_server_says_who_proposed_and_who_approved(api: ApiServer) -> None:
    made = (await api.post(PROPOSALS, proposal(proposedBy="nobody", approvedBy="nobody"))).json
    user = made["spec"]["proposedBy"]
    assert user not in {"", "nobody"}
    assert "approvedBy" not in made["spec"]
    approved = (await api.patch(f"{PROPOSALS}/one", {"spec": {"approved": True, "approvedBy": "nobody"}})).json
    assert approved["spec"]["approvedBy"] == user
    withdrawn = (await api.patch(f"{PROPOSALS}/one", {"spec": {"approved": False}})).json
    assert "approvedBy" not in withdrawn["spec"]


async def test_a_program_that_proposes_cannot_approve(api: ApiServer) -> None:
    for user, role in (("tuner", "rota:tuner"), ("boss", "rota:tuning-approver")):
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        role_ref = {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}
        bound = {"metadata": {"name": user}, "subjects": [subject], "roleRef": role_ref}
        assert (await api.post(ROLES, bound)).code == 201
    tuner, boss = api.acting_as("tuner"), api.acting_as("boss")
    for spec in ({"approved": True}, {"approve": "auto"}):
        refused = await tuner.post(PROPOSALS, proposal(**spec))
        assert refused.code == 403
        assert "approve" in refused.json["message"]
    assert (await tuner.post(PROPOSALS, proposal())).code == 201
    assert (await tuner.patch(f"{PROPOSALS}/one", {"spec": {"approved": True}})).code == 403
    approved = await boss.patch(f"{PROPOSALS}/one", {"spec": {"approved": True}})
    assert (approved.code, approved.json["spec"]["approvedBy"]) == (200, "boss")


async def test_a_proposal_is_printed_with_its_evidence(api: ApiServer) -> None:
    compared = [
        {"figure": "energy_kwh", "before": 200, "difference": -10, "verdict": "better"},
        {"figure": "wait_p99_s", "before": 1, "difference": 1, "verdict": "worse"},
    ]
    await api.post(PROPOSALS, proposal(evidence={"goal": "energy_kwh", "comparisons": compared}))
    table = await api.get(PROPOSALS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    heads = [column["name"] for column in table.json["columnDefinitions"]]
    cells = dict(zip(heads, table.json["rows"][0]["cells"], strict=True))
    assert cells["Phase"] == "Proposed"
    assert cells["Goal"] == "energy_kwh -5.0%"
    assert cells["Worse"] == "wait_p99_s"
    assert cells["Changes"] == "NodeResourcesFit: 1 -> 3"
