from typing import Any

import pytest

from rota.testing.api import Answer, ApiServer

_APPS = "/apis/apps/v1/namespaces/default"
_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_CRONJOBS = "/apis/batch/v1/namespaces/default/cronjobs"


def _template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def _workload(**spec: Any) -> dict[str, Any]:
    whole = {"selector": {"matchLabels": {"app": "web"}}, "template": _template(), **spec}
    return {"metadata": {"name": "w"}, "spec": whole}


def _job(name: str = "j", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def _complaints(answer: Answer) -> list[tuple[str, str]]:
    assert answer.code == 422, answer
    return [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]


async def test_a_deployment_gets_upstreams_defaults(api: ApiServer) -> None:
    live = (await api.post(f"{_APPS}/deployments", _workload())).json
    spec = live["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "enableServiceLinks" not in spec["template"]["spec"]
    assert live["metadata"]["generation"] == 1


async def test_other_workloads_get_theirs(api: ApiServer) -> None:
    stateful = (await api.post(f"{_APPS}/statefulsets", _workload(serviceName="s"))).json["spec"]
    assert stateful["podManagementPolicy"] == "OrderedReady"
    assert stateful["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert stateful["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    daemon = (await api.post(f"{_APPS}/daemonsets", _workload())).json["spec"]
    assert daemon["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
    }
    assert (await api.post(f"{_APPS}/replicasets", _workload())).json["spec"]["replicas"] == 1


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "statefulsets", "daemonsets"])
async def test_a_selector_selects_what_the_template_makes(api: ApiServer, plural: str) -> None:
    other = _workload(selector={"matchLabels": {"app": "other"}})
    field, message = _complaints(await api.post(f"{_APPS}/{plural}", other))[0]
    assert field == "spec.template.metadata.labels"
    assert message.endswith("`selector` does not match template `labels`")
    none = _workload()
    del none["spec"]["selector"]
    assert ("spec.selector", "Required value") in _complaints(await api.post(f"{_APPS}/{plural}", none))


@pytest.mark.parametrize(
    ("plural", "kind"), [("deployments", "deployment"), ("statefulsets", "statefulset"), ("daemonsets", "daemonset")]
)
async def test_an_empty_selector_is_refused(api: ApiServer, plural: str, kind: str) -> None:
    complaints = _complaints(await api.post(f"{_APPS}/{plural}", _workload(selector={})))
    assert any(message.endswith(f"empty selector is invalid for {kind}") for _, message in complaints)


async def test_pods_that_are_kept_running_always_restart(api: ApiServer) -> None:
    answer = await api.post(f"{_APPS}/deployments", _workload(template=_template(restartPolicy="Never")))
    assert _complaints(answer) == [
        ("spec.template.spec.restartPolicy", 'Unsupported value: "Never": supported values: "Always"')
    ]


async def test_a_selector_cannot_change(api: ApiServer) -> None:
    await api.post(f"{_APPS}/deployments", _workload())
    labels = {"app": "web", "tier": "x"}
    changed = {
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}},
    }
    complaints = _complaints(await api.patch(f"{_APPS}/deployments/w", changed))
    assert complaints[0][0] == "spec.selector"
    assert complaints[0][1].endswith("field is immutable")


async def test_little_of_a_statefulset_can_change(api: ApiServer) -> None:
    await api.post(f"{_APPS}/statefulsets", _workload(serviceName="s"))
    assert (await api.patch(f"{_APPS}/statefulsets/w", {"spec": {"replicas": 3}})).code == 200
    answer = await api.patch(f"{_APPS}/statefulsets/w", {"spec": {"serviceName": "t"}})
    assert _complaints(answer) == [
        (
            "spec",
            "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' "
            "are forbidden",
        )
    ]


async def test_a_rollout_must_be_able_to_proceed(api: ApiServer) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}
    assert _complaints(await api.post(f"{_APPS}/deployments", _workload(strategy=strategy))) == [
        (
            "spec.strategy.rollingUpdate.maxUnavailable",
            "Invalid value: 0: may not be 0 when `maxSurge` is 0",
        )
    ]


async def test_a_job_selects_its_pods_by_its_own_uid(api: ApiServer) -> None:
    job = (await api.post(_JOBS, _job())).json
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job["spec"]["template"]["metadata"]["labels"] == {
        "job-name": "j",
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "batch.kubernetes.io/controller-uid": uid,
    }
    defaults = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed"}
    assert {name: job["spec"][name] for name in defaults} == defaults
    assert job["spec"]["podReplacementPolicy"] == "TerminatingOrFailed"
    assert (job["spec"]["suspend"], job["spec"]["manualSelector"]) == (False, False)


async def test_a_job_that_picks_its_selector_must_say_so(api: ApiServer) -> None:
    selector = {"matchLabels": {"app": "web"}}
    complaints = _complaints(await api.post(_JOBS, _job(selector=selector)))
    assert any(message.endswith("`selector` not auto-generated") for _, message in complaints)
    manual = _job(selector=selector, manualSelector=True)
    manual["spec"]["template"]["metadata"] = {"labels": {"app": "web"}}
    assert (await api.post(_JOBS, manual)).code == 201


async def test_a_job_ends_so_its_pods_do_not_restart_for_ever(api: ApiServer) -> None:
    job = _job()
    del job["spec"]["template"]["spec"]["restartPolicy"]
    assert _complaints(await api.post(_JOBS, job)) == [
        ("spec.template.spec.restartPolicy", 'Required value: valid values: "OnFailure", "Never"')
    ]


async def test_an_indexed_job_says_how_many(api: ApiServer) -> None:
    answer = await api.post(_JOBS, _job(completionMode="Indexed", parallelism=2))
    assert ("spec.completions", "Required value: when completion mode is Indexed") in _complaints(answer)
    answer = await api.post(_JOBS, _job(backoffLimitPerIndex=1))
    assert ("spec.backoffLimitPerIndex", "Invalid value: 1: requires indexed completion mode") in _complaints(answer)


_CODES = {"operator": "In", "values": [1]}


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ({"onExitCodes": _CODES}, 'action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'),
        (
            {"action": "Retry", "onExitCodes": _CODES},
            'action: Unsupported value: "Retry": supported values: "Count", "FailIndex", "FailJob", "Ignore"',
        ),
        (
            {"action": "FailIndex", "onExitCodes": _CODES},
            'action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set',
        ),
        (
            {"action": "Count"},
            "Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
        ),
        (
            {"action": "Count", "onExitCodes": _CODES, "onPodConditions": [{"type": "X"}]},
            "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
        ),
        (
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [3, 0, 3]}},
            "onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator; "
            "onExitCodes.values[2]: Duplicate value: 3; "
            "onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
        ),
        (
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [], "containerName": "nobody"}},
            'onExitCodes.containerName: Invalid value: "nobody": must be one of the container or initContainer names '
            "in the pod template; onExitCodes.values: Invalid value: []: at least one value is required",
        ),
        (
            {"action": "Count", "onPodConditions": [{"type": "X", "status": "Maybe"}]},
            'onPodConditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
        ),
    ],
)
async def test_a_failure_policy_that_makes_no_sense_is_refused(
    api: ApiServer, rule: dict[str, Any], complaint: str
) -> None:
    job = _job(podFailurePolicy={"rules": [rule]})
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    found = _complaints(await api.post(_JOBS, job))
    shown = [f"{field.removeprefix('spec.podFailurePolicy.rules[0]').removeprefix('.')}: {why}" for field, why in found]
    assert "; ".join(shown).removeprefix(": ") == complaint


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ([], "rules: Required value: at least one rules must be specified when the successPolicy is specified"),
        (
            [{}],
            "rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
        ),
        (
            [{"succeededIndexes": "0-9"}],
            'rules[0].succeededIndexes: Invalid value: "0-9": error parsing succeededIndexes: too large index: "9"',
        ),
        (
            [{"succeededIndexes": "2,1"}],
            'rules[0].succeededIndexes: Invalid value: "2,1": error parsing succeededIndexes: non-increasing order, '
            "previous: 2, current: 1",
        ),
        (
            [{"succeededIndexes": "1,2", "succeededCount": 3}],
            "rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 "
            "(the number of indexes in the specified succeededIndexes field)",
        ),
    ],
)
async def test_a_success_policy_that_makes_no_sense_is_refused(
    api: ApiServer, rules: list[dict[str, Any]], complaint: str
) -> None:
    job = _job(completionMode="Indexed", completions=4, parallelism=4, successPolicy={"rules": rules})
    found = _complaints(await api.post(_JOBS, job))
    assert [f"{field.removeprefix('spec.successPolicy.')}: {why}" for field, why in found] == [complaint]


async def test_with_a_failure_policy_pods_are_replaced_after_their_end(api: ApiServer) -> None:
    policy = {"rules": [{"action": "Count", "onExitCodes": _CODES}]}
    answer = await api.post(_JOBS, _job(podFailurePolicy=policy, podReplacementPolicy="TerminatingOrFailed"))
    assert ("spec.podReplacementPolicy", 'Unsupported value: "TerminatingOrFailed": supported values: "Failed"') in (
        _complaints(answer)
    )


async def test_a_jobs_template_and_completions_stay(api: ApiServer) -> None:
    await api.post(_JOBS, _job())
    assert (await api.patch(f"{_JOBS}/j", {"spec": {"parallelism": 3, "suspend": True}})).code == 200
    assert _complaints(await api.patch(f"{_JOBS}/j", {"spec": {"completions": 2}})) == [
        ("spec.completions", "Invalid value: 2: field is immutable")
    ]
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "y"}]
    complaints = _complaints(await api.patch(f"{_JOBS}/j", image, kind="json"))
    assert complaints[0][0] == "spec.template.spec"
    await api.patch(f"{_JOBS}/j", {"spec": {"suspend": False}})
    complaints = _complaints(await api.patch(f"{_JOBS}/j", image, kind="json"))
    assert complaints[0][0] == "spec.template"


async def test_a_suspended_job_can_still_be_sent_elsewhere(api: ApiServer) -> None:
    await api.post(_JOBS, _job(suspend=True))
    patch = {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}}
    assert (await api.patch(f"{_JOBS}/j", patch)).code == 200


async def test_a_job_that_was_suspended_again_can_be_sent_elsewhere_once_its_pods_are_gone(api: ApiServer) -> None:
    await api.post(_JOBS, _job(suspend=True))
    smaller = [{"op": "add", "path": "/spec/template/spec/containers/0/resources", "value": {"requests": {"cpu": "1"}}}]
    other = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "y"}]
    near: dict[str, Any] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    status: dict[str, Any] = {"startTime": "2026-01-01T00:00:00Z", "active": 1}
    await api.patch(f"{_JOBS}/j/status", {"status": status})
    assert _complaints(await api.patch(f"{_JOBS}/j", smaller, kind="json"))[0][0] == "spec.template"
    suspended = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await api.patch(f"{_JOBS}/j/status", {"status": {"active": None, "conditions": [suspended]}})
    assert (await api.patch(f"{_JOBS}/j", smaller, kind="json")).code == 200
    assert _complaints(await api.patch(f"{_JOBS}/j", other, kind="json"))[0][0] == "spec.template.spec"
    patch = {"spec": {"template": {"spec": {"affinity": near}}}}
    assert _complaints(await api.patch(f"{_JOBS}/j", patch))[0][0] == "spec.template.spec"


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"managedBy": "me"}, ("spec.managedBy", "must be a domain-prefixed path")),
        ({"managedBy": "Me!/x"}, ("spec.managedBy", "RFC 1123 subdomain")),
        ({"managedBy": f"example.com/{'x' * 60}"}, ("spec.managedBy", "may not be more than 63 bytes")),
        (
            {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1, "maxFailedIndexes": 3},
            ("spec.maxFailedIndexes", "must be less than or equal to completions"),
        ),
        (
            {"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1},
            ("spec.maxFailedIndexes", "must be specified when completions is above 100000"),
        ),
    ],
)
async def test_managed_by_and_max_failed_indexes_are_validated(
    api: ApiServer, spec: Any, complaint: tuple[str, str]
) -> None:
    [(field, why)] = _complaints(await api.post(_JOBS, _job(**spec)))
    assert field == complaint[0]
    assert complaint[1] in why


async def test_managed_by_is_immutable(api: ApiServer) -> None:
    await api.post(_JOBS, _job(managedBy="example.com/queue"))
    assert _complaints(await api.patch(f"{_JOBS}/j", {"spec": {"managedBy": "example.com/other"}})) == [
        ("spec.managedBy", 'Invalid value: "example.com/other": field is immutable')
    ]


async def test_an_elastic_job_grows_in_step_with_its_parallelism(api: ApiServer) -> None:
    await api.post(_JOBS, _job(completionMode="Indexed", completions=2, parallelism=2))
    assert (await api.patch(f"{_JOBS}/j", {"spec": {"completions": 4, "parallelism": 4}})).code == 200
    assert _complaints(await api.patch(f"{_JOBS}/j", {"spec": {"completions": 5}})) == [
        ("spec.completions", "Invalid value: 5: can only be modified in tandem with spec.parallelism")
    ]


def _cron(schedule: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "c"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": _job()["spec"]}, **spec},
    }


async def test_a_cronjob_gets_upstreams_defaults(api: ApiServer) -> None:
    spec = (await api.post(_CRONJOBS, _cron("*/5 * * * *", timeZone="Europe/Berlin"))).json["spec"]
    assert (spec["concurrencyPolicy"], spec["suspend"]) == ("Allow", False)
    assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (3, 1)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"schedule": "every day"}, "spec.schedule"),
        ({"schedule": ""}, "spec.schedule"),
        ({"schedule": "TZ=UTC * * * * *"}, "spec.schedule"),
        ({"schedule": "@hourly", "timeZone": "Mars/Olympus"}, "spec.timeZone"),
        ({"schedule": "@hourly", "concurrencyPolicy": "Maybe"}, "spec.concurrencyPolicy"),
    ],
)
async def test_a_cronjob_that_can_never_run_is_refused(api: ApiServer, spec: dict[str, Any], field: str) -> None:
    complaints = _complaints(await api.post(_CRONJOBS, _cron(**spec)))
    assert [name for name, _ in complaints] == [field]
