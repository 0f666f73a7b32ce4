"""Each rule of a Job: what is refused, with its path, and what is filled in."""

from typing import Any

import pytest

from rota.api.batch import job_rules

QUEUES: dict[str, dict[str, Any]] = {
    "root": {"metadata": {"name": "root"}, "spec": {}},
    "default": {"metadata": {"name": "default"}, "spec": {"parent": "root"}},
    "closed": {"metadata": {"name": "closed"}, "spec": {"parent": "root"}, "status": {"state": "Closed"}},
    "upper": {"metadata": {"name": "upper"}, "spec": {"parent": "root"}},
    "leaf": {"metadata": {"name": "leaf"}, "spec": {"parent": "upper"}},
}
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "none"}]}}


def task(name: str = "worker", **fields: Any) -> dict[str, Any]:
    return {"name": name, "replicas": 2, "template": TEMPLATE, **fields}


def job(*tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    made = {"metadata": {"name": "j"}, "spec": {"tasks": list(tasks) or [task()], **spec}}
    job_rules.set_defaults(made)
    return made


def errors(made: dict[str, Any]) -> list[str]:
    return [str(one) for one in job_rules.check(made, QUEUES)]


def policy(action: str = "RestartJob", **fields: Any) -> dict[str, Any]:
    return {"action": action, **fields}


def test_a_plain_job_is_valid() -> None:
    assert errors(job(task("a"), task("b"))) == []


REFUSED = {
    "no tasks": ({"metadata": {"name": "j"}, "spec": {}}, "spec.tasks", "no task specified"),
    "negative minAvailable": (job(minAvailable=-1), "spec.minAvailable", "greater than or equal to 0"),
    "negative maxRetry": (job(maxRetry=-1), "spec.maxRetry", "greater than or equal to 0"),
    "negative ttl": (job(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished", "greater than or equal"),
    "minAvailable above replicas": (job(minAvailable=3), "spec.minAvailable", "total replicas in tasks (2)"),
    "task minAvailable above replicas": (
        job(task(minAvailable=3)),
        "spec.tasks[0].minAvailable",
        "not exceed replicas",
    ),
    "negative replicas": (job(task(replicas=-1)), "spec.tasks[0].replicas", "greater than or equal to 0"),
    "too many replicas": (job(task("a", replicas=60_000), task("b", replicas=60_000)), "spec.tasks", "at most 100000"),
    "negative task minAvailable": (job(task(minAvailable=-1)), "spec.tasks[0].minAvailable", "or equal to 0"),
    "duplicate task": (job(task(), task()), "spec.tasks[1].name", "Duplicate value"),
    "task name": (job(task("Worker_1")), "spec.tasks[0].name", "RFC 1123 label"),
    "pod name": (job(task("x" * 63), task("y" * 63)) | {"metadata": {"name": "n" * 200}}, "spec.tasks[0].name", "253"),
    "unknown plugin": (job(plugins={"nope": []}), "spec.plugins", '"nope"'),
    "unknown argument": (job(plugins={"svc": ["--nope"]}), "spec.plugins[svc]", "--disable-network-policy"),
    "port of a plugin": (job(plugins={"mpi": ["--port=ssh"]}), "spec.plugins[mpi]", "must be a number"),
    "switch of a plugin": (job(plugins={"svc": ["--inject-hosts-env=perhaps"]}), "spec.plugins[svc]", "true or false"),
    "missing queue": (job(queue="nope"), "spec.queue", "unable to find job queue"),
    "root queue": (job(queue="root"), "spec.queue", "can not submit job to root queue"),
    "closed queue": (job(queue="closed"), "spec.queue", "state Open, queue closed is Closed"),
    "inner queue": (job(queue="upper"), "spec.queue", "leaf queue, queue upper has the children leaf"),
    "cycle": (
        job(task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]})),
        "spec.tasks",
        "a -> b -> a",
    ),
    "unknown dependency": (job(task(dependsOn={"name": ["x"]})), "spec.tasks[0].dependsOn.name", "no such task"),
    "iteration": (
        job(task("a"), task("b", dependsOn={"name": ["a"], "iteration": "some"})),
        "spec.tasks[1].dependsOn.iteration",
        "supported values",
    ),
    "event and exit code": (
        job(policies=[policy(event="PodFailed", exitCode=1)]),
        "spec.policies[0]",
        "simultaneously",
    ),
    "neither": (job(policies=[policy()]), "spec.policies[0]", "either event or exitCode"),
    "event": (job(policies=[policy(event="PodRunning")]), "spec.policies[0].event", "supported values"),
    "internal action": (job(policies=[policy("SyncJob", event="PodFailed")]), "spec.policies[0].action", "supported"),
    "duplicate event": (
        job(policies=[policy(event="PodFailed"), policy("AbortJob", events=["PodFailed"])]),
        "spec.policies[1].events",
        "Duplicate value",
    ),
    "any with others": (job(policies=[policy(event="*"), policy(event="PodFailed")]), "spec.policies", "if there is *"),
    "exit code zero": (job(policies=[policy(exitCode=0)]), "spec.policies[0].exitCode", "not a valid error code"),
    "duplicate exit code": (
        job(policies=[policy(exitCode=3), policy(exitCode=3)]),
        "spec.policies[1].exitCode",
        "Duplicate value",
    ),
    "pending without timeout": (
        job(task(policies=[policy(event="PodPending")])),
        "spec.tasks[0].policies[0].timeout",
        "needs a timeout",
    ),
    "timeout": (job(policies=[policy(event="PodFailed", timeout="5")]), "spec.policies[0].timeout", "duration"),
    "volume without claim": (job(volumes=[{"mountPath": "/d"}]), "spec.volumes[0]", "either volumeClaim or"),
    "volume with both": (
        job(volumes=[{"mountPath": "/d", "volumeClaimName": "c", "volumeClaim": {}}]),
        "spec.volumes[0]",
        "not both",
    ),
    "mount path": (job(volumes=[{"mountPath": "", "volumeClaimName": "c"}]), "spec.volumes[0].mountPath", "Required"),
    "two at a path": (
        job(volumes=[{"mountPath": "/d", "volumeClaimName": "c"}, {"mountPath": "/d", "volumeClaimName": "e"}]),
        "spec.volumes[1].mountPath",
        "Duplicate value",
    ),
    "claim name": (
        job(volumes=[{"mountPath": "/d", "volumeClaimName": "C_"}]),
        "spec.volumes[0].volumeClaimName",
        "RFC",
    ),
    "partitions": (
        job(task(replicas=3, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})),
        "spec.tasks[0].replicas",
        "totalPartitions * partitionSize (4)",
    ),
    "too many partitions": (
        job(task(replicas=4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "minPartitions": 3})),
        "spec.tasks[0].partitionPolicy.minPartitions",
        "totalPartitions (2)",
    ),
    "two tiers": (
        job(networkTopology={"highestTierAllowed": 1, "highestTierName": "rack"}),
        "spec.networkTopology",
        "simultaneously",
    ),
    "estimate": (job(runningEstimate="soon"), "spec.runningEstimate", "duration"),
    "no template": (job(task(template={})), "spec.tasks[0].template.spec", "Required value"),
    "unknown field of a pod": (
        job(task(template={"spec": {**TEMPLATE["spec"], "contaners": []}})),
        "spec.tasks[0].template.spec.contaners",
        "unknown field",
    ),
    "wrong type in a pod": (job(task(template={"spec": {"containers": "x"}})), "spec.tasks[0].template", "containers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_broken_rule_is_refused_with_its_path(case: str) -> None:
    made, path, words = REFUSED[case]
    assert any(one.startswith(f"{path}: ") and words in one for one in errors(made)), errors(made)


def test_defaults_are_upstreams() -> None:
    made = {
        "spec": {"tasks": [{"replicas": 2, "template": {"spec": {"hostNetwork": True}}}, task("b", minAvailable=1)]}
    }
    job_rules.set_defaults(made)
    spec: Any = made["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        "volcano",
        3,
        3,
    )
    first = spec["tasks"][0]
    assert (first["name"], first["minAvailable"], first["maxRetry"]) == ("default0", 2, 3)
    assert first["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_replicas_follow_partitions() -> None:
    made = job({"name": "w", "template": TEMPLATE, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 3}})
    assert made["spec"]["tasks"][0]["replicas"] == 6


@pytest.mark.parametrize(
    ("plugin", "added"), [("tensorflow", {"svc"}), ("pytorch", {"svc"}), ("ray", {"svc"}), ("mpi", {"svc", "ssh"})]
)
def test_a_plugin_brings_the_plugins_that_it_needs(plugin: str, added: set[str]) -> None:
    assert set(job(plugins={plugin: []})["spec"]["plugins"]) == {plugin, *added}


def test_the_size_and_the_priority_of_a_job_may_change() -> None:
    old = job(task())
    new = job(task(replicas=4, minAvailable=1), minAvailable=1, priorityClassName="high")
    assert job_rules.check_update(new, old) == []


@pytest.mark.parametrize(
    ("new", "path"),
    [
        (job(queue="leaf"), "spec.queue"),
        (job(task(), task("more")), "spec.tasks"),
        (job(task(policies=[policy(event="*")])), "spec.tasks[0].policies"),
        (job(task(replicas=1, minAvailable=2)), "spec.tasks[0].minAvailable"),
    ],
)
def test_nothing_else_of_a_job_may_change(new: dict[str, Any], path: str) -> None:
    assert path in [one.field for one in job_rules.check_update(new, job(task()))]
