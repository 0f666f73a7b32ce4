"""Kinds of the group `rota.dev`, in the form of the generated models."""

# ruff: noqa: N815, UP006, UP035, UP045 - fields are named as on the wire, annotations written as the generated ones are
from typing import Any, Dict, List, Optional

from rota.api.models import core_v1, meta_v1  # type: ignore[attr-defined]  # found through the package's __path__
from rota.api.models._schema import DictMixin, Quantity, field

__all__ = [
    "BindingBatch",
    "BindingVerdict",
    "ClusterState",
    "Pipeline",
    "PipelineRun",
    "PodStatusBatch",
    "PodStatusReport",
    "PodStatusVerdict",
    "RebalancePolicy",
    "SchedulerInstance",
    "ShardMap",
    "StepRun",
    "TuningProposal",
    "WhatIf",
    "core_v1",
    "meta_v1",
]


class BindingVerdict(DictMixin):
    r"""What became of one binding of a batch.

    **parameters**

    * **name** ``str`` - The pod.
    * **namespace** ``str`` - The pod's namespace.
    * **status** ``Optional[meta_v1.Status]`` - What a binding of this pod alone would have been answered with.
    """

    name: "str"
    namespace: "str"
    status: "Optional[meta_v1.Status]" = None


class BindingBatch(DictMixin):
    r"""Many bindings in one request. Each pod gets a verdict of its own; an atomic batch binds all of its pods or none.

    **parameters**

    * **bindings** ``List[core_v1.Binding]`` - What to bind where; each names the namespace and the name of its pod.
    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **atomic** ``Optional[bool]`` - Whether all pods are bound or none, as the members of a gang are.
    * **bound** ``Optional[int]`` - How many pods were bound; set by the server.
    * **kind** ``Optional[str]`` - The kind of this object: BindingBatch.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - Not used: batches are not stored.
    * **seen** ``Optional[Dict[str, str]]`` - By node, the resourceVersion up to which the scheduler knows its pods. A
      binding to such a node is refused if another pod was bound there since. Without it, if the pod does not fit.
    * **verdicts** ``Optional[List[BindingVerdict]]`` - One for each binding, in their order; set by the server.
    """

    bindings: "List[core_v1.Binding]"
    apiVersion: "Optional[str]" = None
    atomic: "Optional[bool]" = None
    bound: "Optional[int]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    seen: "Optional[Dict[str, str]]" = None
    verdicts: "Optional[List[BindingVerdict]]" = None


class PodStatusReport(DictMixin):
    r"""How one pod is.

    **parameters**

    * **metadata** ``meta_v1.ObjectMeta`` - Which pod: its namespace, name and uid.
    * **status** ``core_v1.PodStatus`` - What is merged into its status.
    """

    metadata: "meta_v1.ObjectMeta"
    status: "core_v1.PodStatus"


class PodStatusVerdict(DictMixin):
    r"""What became of one status of a batch.

    **parameters**

    * **name** ``str`` - The pod.
    * **namespace** ``str`` - The pod's namespace.
    * **status** ``Optional[meta_v1.Status]`` - What a patch of this pod's status alone would have been answered with.
    """

    name: "str"
    namespace: "str"
    status: "Optional[meta_v1.Status]" = None


class PodStatusBatch(DictMixin):
    r"""Statuses of many pods in one request, each with a verdict of its own.

    **parameters**

    * **statuses** ``List[PodStatusReport]`` - How pods are; each pod once.
    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **kind** ``Optional[str]`` - The kind of this object: PodStatusBatch.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - Not used: batches are not stored.
    * **verdicts** ``Optional[List[PodStatusVerdict]]`` - One for each status, in their order; set by the server.
    """

    statuses: "List[PodStatusReport]"
    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    verdicts: "Optional[List[PodStatusVerdict]]" = None


class PipelineParameter(DictMixin):
    r"""A value that each run of a pipeline may have for itself.

    **parameters**

    * **name** ``str`` - What references call it: {{ parameters.NAME }}.
    * **choices** ``Optional[List[str]]`` - The values that it may have; any if there are none.
    * **default** ``Optional[str]`` - The value where a run gives none; without one, every run must.
    * **description** ``Optional[str]`` - What it is for.
    """

    name: "str"
    choices: "Optional[List[str]]" = None
    default: "Optional[str]" = None
    description: "Optional[str]" = None


class StepOutput(DictMixin):
    r"""A small value that a step leaves behind.

    **parameters**

    * **name** ``str`` - What references call it: {{ steps.STEP.outputs.NAME }}.
    * **default** ``Optional[str]`` - The value where the step leaves none; without one, the step has then failed.
    * **from** ``Optional[str]`` - file: the line NAME=VALUE of the file that $ROTA_OUTPUTS names. stdout: what was
      written last. Defaults to file.
    """

    name: "str"
    default: "Optional[str]" = None
    from_: "Optional[str]" = field(metadata={"json": "from"}, default=None)


class ForEach(DictMixin):
    r"""What a step is run for, once each.

    **parameters**

    * **from** ``Optional[str]`` - A reference to a value that is a list: JSON, or one item per line.
    * **items** ``Optional[List[Any]]`` - The items themselves.
    """

    from_: "Optional[str]" = field(metadata={"json": "from"}, default=None)
    items: "Optional[List[Any]]" = None


class StepRetries(DictMixin):
    r"""How often a step is tried again. What is lost to a disruption is tried again without being counted.

    **parameters**

    * **limit** ``int`` - How many failures are made up for.
    * **factor** ``Optional[int]`` - By what each pause is longer than the one before; 2 if not set.
    * **initialSeconds** ``Optional[int]`` - The first pause; 1 if not set.
    * **maxSeconds** ``Optional[int]`` - The longest pause; 300 if not set.
    """

    limit: "int"
    factor: "Optional[int]" = None
    initialSeconds: "Optional[int]" = None
    maxSeconds: "Optional[int]" = None


class PipelineStep(DictMixin):
    r"""A step: what to run, after what, and under which conditions.

    **parameters**

    * **name** ``str`` - Its name among the steps.
    * **cache** ``Optional[bool]`` - Take the outputs of an earlier run that had the very same work to do.
    * **continueOnFailure** ``Optional[bool]`` - Go on after it as if it had succeeded.
    * **dependsOn** ``Optional[List[str]]`` - Steps that come before; those that it refers to do so anyway.
    * **forEach** ``Optional[ForEach]`` - Run it once for each of several items.
    * **gang** ``Optional[int]`` - The number of pods of its template that run it, all at once or none; its outputs are
      those of pod 0.
    * **job** ``Optional[Dict[str, Any]]`` - A Job to run: its metadata and spec.
    * **mutex** ``Optional[str]`` - Of all steps of the namespace that name it, one runs at a time.
    * **near** ``Optional[List[str]]`` - Steps that come before, and beside whose pods it should run, for what they left
      there.
    * **outputs** ``Optional[List[StepOutput]]`` - What it leaves behind.
    * **parallelism** ``Optional[int]`` - How many of its items may run at a time.
    * **retries** ``Optional[StepRetries]`` - How often it is tried again.
    * **template** ``Optional[Dict[str, Any]]`` - A pod to run: its metadata and spec.
    * **timeoutSeconds** ``Optional[int]`` - How long one try may take.
    * **when** ``Optional[str]`` - A condition; where it does not hold, the step is skipped.
    """

    name: "str"
    cache: "Optional[bool]" = None
    continueOnFailure: "Optional[bool]" = None
    dependsOn: "Optional[List[str]]" = None
    forEach: "Optional[ForEach]" = None
    gang: "Optional[int]" = None
    job: "Optional[Dict[str, Any]]" = None
    mutex: "Optional[str]" = None
    near: "Optional[List[str]]" = None
    outputs: "Optional[List[StepOutput]]" = None
    parallelism: "Optional[int]" = None
    retries: "Optional[StepRetries]" = None
    template: "Optional[Dict[str, Any]]" = None
    timeoutSeconds: "Optional[int]" = None
    when: "Optional[str]" = None


class PipelineSchedule(DictMixin):
    r"""When a pipeline is run by itself.

    **parameters**

    * **cron** ``str`` - As a CronJob has it.
    * **concurrencyPolicy** ``Optional[str]`` - Allow, Forbid or Replace a run that still goes on; Allow if not set.
    * **parameters** ``Optional[List[RunParameter]]`` - What those runs are given.
    * **suspend** ``Optional[bool]`` - Not for now.
    * **timeZone** ``Optional[str]`` - Where the clock hangs; UTC if not set.
    """

    cron: "str"
    concurrencyPolicy: "Optional[str]" = None
    parameters: "Optional[List[RunParameter]]" = None
    suspend: "Optional[bool]" = None
    timeZone: "Optional[str]" = None


class PipelineWorkspace(DictMixin):
    r"""A folder that the steps of a run share. They run where it is.

    **parameters**

    * **path** ``Optional[str]`` - Where steps find it; /workspace if not set. {{ workspace }} tells it.
    """

    path: "Optional[str]" = None


class PipelineSpec(DictMixin):
    r"""What a pipeline does.

    **parameters**

    * **steps** ``List[PipelineStep]`` - What it consists of.
    * **failurePolicy** ``Optional[str]`` - FailFast: the first failure ends the run. Continue: what does not depend on
      the failed step goes on. FailFast if not set.
    * **historyLimit** ``Optional[int]`` - How many finished runs are kept; 10 if not set.
    * **onExit** ``Optional[List[PipelineStep]]`` - Steps at the end of a run, however it ended.
    * **parallelism** ``Optional[int]`` - How many steps of a run may go on at a time.
    * **parameters** ``Optional[List[PipelineParameter]]`` - What runs may have for themselves.
    * **schedule** ``Optional[PipelineSchedule]`` - When it is run by itself.
    * **timeoutSeconds** ``Optional[int]`` - How long a run may take.
    * **workspace** ``Optional[PipelineWorkspace]`` - A folder that the steps of a run share.
    """

    steps: "List[PipelineStep]"
    failurePolicy: "Optional[str]" = None
    historyLimit: "Optional[int]" = None
    onExit: "Optional[List[PipelineStep]]" = None
    parallelism: "Optional[int]" = None
    parameters: "Optional[List[PipelineParameter]]" = None
    schedule: "Optional[PipelineSchedule]" = None
    timeoutSeconds: "Optional[int]" = None
    workspace: "Optional[PipelineWorkspace]" = None


class PipelineStatus(DictMixin):
    r"""What became of a pipeline's runs.

    **parameters**

    * **active** ``Optional[List[str]]`` - Runs that go on.
    * **lastRun** ``Optional[str]`` - The latest run.
    * **lastScheduleTime** ``Optional[meta_v1.Time]`` - When it was last run by itself.
    """

    active: "Optional[List[str]]" = None
    lastRun: "Optional[str]" = None
    lastScheduleTime: "Optional[meta_v1.Time]" = None


class Pipeline(DictMixin):
    r"""Work in steps that depend on each other; a PipelineRun does it.

    **parameters**

    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **kind** ``Optional[str]`` - The kind of this object: Pipeline.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - Its name and the like.
    * **spec** ``Optional[PipelineSpec]`` - What it does.
    * **status** ``Optional[PipelineStatus]`` - What became of its runs; set by the server.
    """

    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    spec: "Optional[PipelineSpec]" = None
    status: "Optional[PipelineStatus]" = None


class RunParameter(DictMixin):
    r"""The value of a parameter.

    **parameters**

    * **name** ``str`` - Which one.
    * **value** ``str`` - Its value.
    """

    name: "str"
    value: "str"


class PipelineRunSpec(DictMixin):
    r"""Which pipeline to run, and how.

    **parameters**

    * **cancel** ``Optional[bool]`` - End it: what runs is stopped, nothing new begins but the steps at the end.
    * **parameters** ``Optional[List[RunParameter]]`` - Values of the pipeline's parameters.
    * **pipeline** ``Optional[str]`` - The name of a Pipeline; it is run as it was when the run began.
    * **pipelineSpec** ``Optional[PipelineSpec]`` - Or a pipeline for this run alone.
    * **retry** ``Optional[int]`` - Each time that this is raised, what failed is tried again.
    * **suspend** ``Optional[bool]`` - Begin nothing new for now; what runs goes on.
    * **ttlSecondsAfterFinished** ``Optional[int]`` - How long it is kept after its end. If not set, a run of a Pipeline
      is kept as that one's historyLimit says, and one with a pipeline of its own for seven days.
    """

    cancel: "Optional[bool]" = None
    parameters: "Optional[List[RunParameter]]" = None
    pipeline: "Optional[str]" = None
    pipelineSpec: "Optional[PipelineSpec]" = None
    retry: "Optional[int]" = None
    suspend: "Optional[bool]" = None
    ttlSecondsAfterFinished: "Optional[int]" = None


class StepCounts(DictMixin):
    r"""How many step runs are in which state.

    **parameters**

    * **cached** ``Optional[int]`` - Taken from an earlier run.
    * **cancelled** ``Optional[int]`` - Stopped.
    * **failed** ``Optional[int]`` - Failed.
    * **running** ``Optional[int]`` - Going on.
    * **skipped** ``Optional[int]`` - Left out.
    * **succeeded** ``Optional[int]`` - Done.
    * **waiting** ``Optional[int]`` - Not begun.
    """

    cached: "Optional[int]" = None
    cancelled: "Optional[int]" = None
    failed: "Optional[int]" = None
    running: "Optional[int]" = None
    skipped: "Optional[int]" = None
    succeeded: "Optional[int]" = None
    waiting: "Optional[int]" = None


class PipelineRunStatus(DictMixin):
    r"""How far a run has come.

    **parameters**

    * **counts** ``Optional[StepCounts]`` - Its steps by state.
    * **finishedAt** ``Optional[meta_v1.Time]`` - When it ended.
    * **message** ``Optional[str]`` - Why it is as it is.
    * **observedRetry** ``Optional[int]`` - The retry that was begun.
    * **phase** ``Optional[str]`` - Pending, Running, Suspended, Succeeded, Failed or Cancelled.
    * **reason** ``Optional[str]`` - The same in one word.
    * **signingSecret** ``Optional[str]`` - The Secret with the key by which its steps sign their outputs.
    * **spec** ``Optional[PipelineSpec]`` - The pipeline as it was when the run began.
    * **startedAt** ``Optional[meta_v1.Time]`` - When it began.
    * **workspaceNode** ``Optional[str]`` - The node that the shared folder is on.
    """

    counts: "Optional[StepCounts]" = None
    finishedAt: "Optional[meta_v1.Time]" = None
    message: "Optional[str]" = None
    observedRetry: "Optional[int]" = None
    phase: "Optional[str]" = None
    reason: "Optional[str]" = None
    signingSecret: "Optional[str]" = None
    spec: "Optional[PipelineSpec]" = None
    startedAt: "Optional[meta_v1.Time]" = None
    workspaceNode: "Optional[str]" = None


class PipelineRun(DictMixin):
    r"""One run of a pipeline.

    **parameters**

    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **kind** ``Optional[str]`` - The kind of this object: PipelineRun.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - Its name and the like.
    * **spec** ``Optional[PipelineRunSpec]`` - What to run.
    * **status** ``Optional[PipelineRunStatus]`` - How far it has come; set by the server.
    """

    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    spec: "Optional[PipelineRunSpec]" = None
    status: "Optional[PipelineRunStatus]" = None


class StepRunSpec(DictMixin):
    r"""What one step run has to do; everything is filled in.

    **parameters**

    * **run** ``str`` - The PipelineRun.
    * **step** ``str`` - The step.
    * **cacheKey** ``Optional[str]`` - What work it is, for those who have the same to do.
    * **cancel** ``Optional[bool]`` - Stop it.
    * **gang** ``Optional[int]`` - How many pods run it, all at once or none.
    * **index** ``Optional[int]`` - Which item it is for.
    * **item** ``Optional[Any]`` - The item.
    * **job** ``Optional[Dict[str, Any]]`` - The Job to run.
    * **mutex** ``Optional[str]`` - What it has to itself while it runs.
    * **outputs** ``Optional[List[StepOutput]]`` - What it leaves behind.
    * **retries** ``Optional[StepRetries]`` - How often it is tried again.
    * **template** ``Optional[Dict[str, Any]]`` - The pod to run.
    * **timeoutSeconds** ``Optional[int]`` - How long one try may take.
    """

    run: "str"
    step: "str"
    cacheKey: "Optional[str]" = None
    cancel: "Optional[bool]" = None
    gang: "Optional[int]" = None
    index: "Optional[int]" = None
    item: "Optional[Any]" = None
    job: "Optional[Dict[str, Any]]" = None
    mutex: "Optional[str]" = None
    outputs: "Optional[List[StepOutput]]" = None
    retries: "Optional[StepRetries]" = None
    template: "Optional[Dict[str, Any]]" = None
    timeoutSeconds: "Optional[int]" = None


class StepRunStatus(DictMixin):
    r"""How far a step run has come.

    **parameters**

    * **attempts** ``Optional[int]`` - How many pods or Jobs were made for it.
    * **disruptions** ``Optional[int]`` - How many of them were lost to what was not its fault.
    * **failures** ``Optional[int]`` - How many of them failed.
    * **finishedAt** ``Optional[meta_v1.MicroTime]`` - When it ended.
    * **message** ``Optional[str]`` - Why it is as it is.
    * **node** ``Optional[str]`` - Where it runs, or ran last.
    * **notBefore** ``Optional[meta_v1.MicroTime]`` - When it is tried again.
    * **outputs** ``Optional[Dict[str, str]]`` - What it left behind.
    * **phase** ``Optional[str]`` - Waiting, Running, Succeeded, Failed, Skipped, Cached or Cancelled.
    * **reason** ``Optional[str]`` - The same in one word.
    * **startedAt** ``Optional[meta_v1.MicroTime]`` - When the latest try began.
    """

    attempts: "Optional[int]" = None
    disruptions: "Optional[int]" = None
    failures: "Optional[int]" = None
    finishedAt: "Optional[meta_v1.MicroTime]" = None
    message: "Optional[str]" = None
    node: "Optional[str]" = None
    notBefore: "Optional[meta_v1.MicroTime]" = None
    outputs: "Optional[Dict[str, str]]" = None
    phase: "Optional[str]" = None
    reason: "Optional[str]" = None
    startedAt: "Optional[meta_v1.MicroTime]" = None


class StepRun(DictMixin):
    r"""One run of one step, for one item where there are several: an object of its own, however many there are.

    **parameters**

    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **kind** ``Optional[str]`` - The kind of this object: StepRun.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - Its name and the like.
    * **spec** ``Optional[StepRunSpec]`` - What it has to do.
    * **status** ``Optional[StepRunStatus]`` - How far it has come; set by the server.
    """

    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    spec: "Optional[StepRunSpec]" = None
    status: "Optional[StepRunStatus]" = None


class RebalancePolicySpec(DictMixin):
    r"""When the leader moves pods to where the scheduler would put them today, which, and how many.

    **parameters**

    * **by** ``Optional[str]`` - How full a node is: by the requests of its pods, or by their measured usage. requests
      if not set.
    * **dryRun** ``Optional[bool]`` - Plan and tell, but move nothing.
    * **emptyBelow** ``Optional[int]`` - Nodes that are less full, in percent, are empty; 20 if not set.
    * **fullAbove** ``Optional[int]`` - Nodes that are fuller, in percent, are full; 70 if not set.
    * **intervalSeconds** ``Optional[int]`` - How long after a plan the next one is made; 600 if not set.
    * **jobs** ``Optional[bool]`` - Move pods whose work has an end, as those of Jobs and pipelines, though they begin
      it anew.
    * **localStorage** ``Optional[bool]`` - Move pods though what is in their local volumes is lost.
    * **mostAtOnce** ``Optional[int]`` - How many pods a plan moves; 50 if not set.
    * **mostPerHour** ``Optional[int]`` - How many pods move within an hour, also if the leader changes; 200 if not set.
    * **mostPerNamespace** ``Optional[int]`` - How many pods of a namespace a plan moves; 20 if not set.
    * **mostPerNode** ``Optional[int]`` - How many pods of a node a plan moves; 5 if not set.
    * **mostRestarts** ``Optional[int]`` - So often a pod crashes before it is moved for that; 20 if not set.
    * **oldestSeconds** ``Optional[int]`` - So long a pod runs before it is moved for that; a week if not set.
    * **priorityBelow** ``Optional[int]`` - Pods of this priority and above stay; critical ones always do.
    * **strategies** ``Optional[List[str]]`` - What is looked for: node-affinity, taints, pod-affinity, spread,
      duplicates, crashes, lifetime, balance, compact. All but crashes, lifetime and compact if not set.
    * **suspend** ``Optional[bool]`` - Not for now.
    * **youngestSeconds** ``Optional[int]`` - So long after its start a pod stays; 300 if not set.
    """

    by: "Optional[str]" = None
    dryRun: "Optional[bool]" = None
    emptyBelow: "Optional[int]" = None
    fullAbove: "Optional[int]" = None
    intervalSeconds: "Optional[int]" = None
    jobs: "Optional[bool]" = None
    localStorage: "Optional[bool]" = None
    mostAtOnce: "Optional[int]" = None
    mostPerHour: "Optional[int]" = None
    mostPerNamespace: "Optional[int]" = None
    mostPerNode: "Optional[int]" = None
    mostRestarts: "Optional[int]" = None
    oldestSeconds: "Optional[int]" = None
    priorityBelow: "Optional[int]" = None
    strategies: "Optional[List[str]]" = None
    suspend: "Optional[bool]" = None
    youngestSeconds: "Optional[int]" = None


class RebalanceFigures(DictMixin):
    r"""A cluster in numbers: the less the better, the first that differs counts.

    **parameters**

    * **duplicates** ``Optional[int]`` - Pairs of one owner on one node.
    * **misplacedPods** ``Optional[int]`` - Pods where the scheduler would not put them.
    * **nodesInUse** ``Optional[int]`` - Nodes with pods.
    * **unevenness** ``Optional[float]`` - The sum of the squares of how full nodes are.
    """

    duplicates: "Optional[int]" = None
    misplacedPods: "Optional[int]" = None
    nodesInUse: "Optional[int]" = None
    unevenness: "Optional[float]" = None


class RebalanceMove(DictMixin):
    r"""A pod that had a better place elsewhere.

    **parameters**

    * **name** ``str`` - The pod.
    * **namespace** ``str`` - The pod's namespace.
    * **drift** ``Optional[str]`` - What was found, of the strategies of the policy.
    * **dryRun** ``Optional[bool]`` - It would have been moved.
    * **from** ``Optional[str]`` - The node that it was on.
    * **refusal** ``Optional[str]`` - Why it was not evicted after all.
    * **scoreAfter** ``Optional[int]`` - What the scheduler thinks of the other node.
    * **scoreBefore** ``Optional[int]`` - What it thinks of this one; nothing if it would refuse it.
    * **time** ``Optional[meta_v1.Time]`` - When it was evicted, or was about to be.
    * **to** ``Optional[str]`` - The node that the scheduler would have chosen then.
    * **uid** ``Optional[str]`` - The pod itself, and no successor of its name.
    * **why** ``Optional[str]`` - The same in words.
    """

    name: "str"
    namespace: "str"
    drift: "Optional[str]" = None
    dryRun: "Optional[bool]" = None
    from_: "Optional[str]" = field(metadata={"json": "from"}, default=None)
    refusal: "Optional[str]" = None
    scoreAfter: "Optional[int]" = None
    scoreBefore: "Optional[int]" = None
    time: "Optional[meta_v1.Time]" = None
    to: "Optional[str]" = None
    uid: "Optional[str]" = None
    why: "Optional[str]" = None


class RebalanceStay(DictMixin):
    r"""A pod that stays though something is not as it should be.

    **parameters**

    * **pod** ``str`` - Its namespace and name.
    * **why** ``str`` - What speaks against moving it.
    """

    pod: "str"
    why: "str"


class RebalancePolicyStatus(DictMixin):
    r"""What became of the latest plan, and what has moved within an hour: limits count that.

    **parameters**

    * **after** ``Optional[RebalanceFigures]`` - The cluster as it will be when all is done.
    * **before** ``Optional[RebalanceFigures]`` - The cluster as the latest plan found it.
    * **conditions** ``Optional[List[meta_v1.Condition]]`` - Planned: whether a plan could be made.
    * **lastRunTime** ``Optional[meta_v1.MicroTime]`` - When the latest plan was made.
    * **moves** ``Optional[List[RebalanceMove]]`` - Pods that the latest plan moves, or that moved within an hour.
    * **observedGeneration** ``Optional[int]`` - The generation of the policy that the latest plan was made by.
    * **stays** ``Optional[List[RebalanceStay]]`` - Pods that stay, and why; at most 50 of them.
    """

    after: "Optional[RebalanceFigures]" = None
    before: "Optional[RebalanceFigures]" = None
    conditions: "Optional[List[meta_v1.Condition]]" = None
    lastRunTime: "Optional[meta_v1.MicroTime]" = None
    moves: "Optional[List[RebalanceMove]]" = None
    observedGeneration: "Optional[int]" = None
    stays: "Optional[List[RebalanceStay]]" = None


class RebalancePolicy(DictMixin):
    r"""Has the leader rebalance the cluster. There is one at most, named cluster; without it nothing is moved.

    **parameters**

    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **kind** ``Optional[str]`` - The kind of this object: RebalancePolicy.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - Its name and the like.
    * **spec** ``Optional[RebalancePolicySpec]`` - When and what to move.
    * **status** ``Optional[RebalancePolicyStatus]`` - What became of it; set by the server.
    """

    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    spec: "Optional[RebalancePolicySpec]" = None
    status: "Optional[RebalancePolicyStatus]" = None


class TuningChange(DictMixin):
    r"""One number of a scheduler profile that is to change.

    **parameters**

    * **plugin** ``str`` - The plugin.
    * **to** ``float`` - The proposed value.
    * **argument** ``Optional[str]`` - The path of an argument, such as objectives.PowerObjective.weight; the weight of
      the plugin's score if not set.
    * **from** ``Optional[float]`` - The value that the evidence was compared with, which is required; the proposal is
      refused if the profile has another one.
    """

    plugin: "str"
    to: "float"
    argument: "Optional[str]" = None
    from_: "Optional[float]" = field(metadata={"json": "from"}, default=None)


class TuningBound(DictMixin):
    r"""How much worse than before a live figure may get.

    **parameters**

    * **figure** ``str`` - pendingPods, emptyNodes, fragmentation, powerWatts or violationRate.
    * **amount** ``Optional[float]`` - By so much, if that is more than the percentage; 0 if not set.
    * **percent** ``Optional[float]`` - By so many percent of the figure before; 10 if not set.
    """

    figure: "str"
    amount: "Optional[float]" = None
    percent: "Optional[float]" = None


class TuningComparison(DictMixin):
    r"""A figure of the simulation with the present and with the proposed values.

    **parameters**

    * **figure** ``str`` - The name of the figure.
    * **after** ``Optional[float]`` - Its mean with the proposed values.
    * **before** ``Optional[float]`` - Its mean with the present values.
    * **difference** ``Optional[float]`` - The mean difference on paired seeds.
    * **high** ``Optional[float]`` - The upper end of the difference's 95 % confidence interval.
    * **low** ``Optional[float]`` - The lower end.
    * **verdict** ``Optional[str]`` - better, worse, noise, or empty for a figure that is neither good nor bad.
    """

    figure: "str"
    after: "Optional[float]" = None
    before: "Optional[float]" = None
    difference: "Optional[float]" = None
    high: "Optional[float]" = None
    low: "Optional[float]" = None
    verdict: "Optional[str]" = None


class TuningEvidence(DictMixin):
    r"""The simulation that a proposal follows from.

    **parameters**

    * **comparisons** ``Optional[List[TuningComparison]]`` - All figures, on seeds that the search did not use.
    * **goal** ``Optional[str]`` - The figure that was to get better.
    * **runs** ``Optional[int]`` - How many runs the search and the comparison made.
    * **seeds** ``Optional[int]`` - How many paired seeds the comparison has.
    * **trace** ``Optional[str]`` - The name of the trace.
    """

    comparisons: "Optional[List[TuningComparison]]" = None
    goal: "Optional[str]" = None
    runs: "Optional[int]" = None
    seeds: "Optional[int]" = None
    trace: "Optional[str]" = None


class TuningProposalSpec(DictMixin):
    r"""Other weights or thresholds for a profile of the scheduler, why, and when they are taken back.

    **parameters**

    * **changes** ``List[TuningChange]`` - The numbers that are to change.
    * **approve** ``Optional[str]`` - manual: it waits for approved. auto: evidence without a worse figure approves it.
      manual if not set.
    * **approved** ``Optional[bool]`` - Whether it may be put into force; false after that takes it back. Setting it,
      and auto, need the verb approve.
    * **approvedBy** ``Optional[str]`` - The user that approved it; set by the server.
    * **bounds** ``Optional[List[TuningBound]]`` - Live figures that take it back if they get worse; pendingPods and
      fragmentation if not set.
    * **evidence** ``Optional[TuningEvidence]`` - The simulation that it follows from.
    * **intervalSeconds** ``Optional[int]`` - How often live figures are read; 60 if not set.
    * **patience** ``Optional[int]`` - So many readings in a row beyond a bound take it back; 3 if not set.
    * **proposedBy** ``Optional[str]`` - The user that created it; set by the server.
    * **schedulerName** ``Optional[str]`` - The profile; default-scheduler if not set.
    * **stepSeconds** ``Optional[int]`` - How long a step is in force before the next one; 600 if not set.
    * **steps** ``Optional[int]`` - In how many equal steps values change; 4 if not set.
    * **watchSeconds** ``Optional[int]`` - How long figures are watched after the last step; 3600 if not set.
    """

    changes: "List[TuningChange]"
    approve: "Optional[str]" = None
    approved: "Optional[bool]" = None
    approvedBy: "Optional[str]" = None
    bounds: "Optional[List[TuningBound]]" = None
    evidence: "Optional[TuningEvidence]" = None
    intervalSeconds: "Optional[int]" = None
    patience: "Optional[int]" = None
    proposedBy: "Optional[str]" = None
    schedulerName: "Optional[str]" = None
    stepSeconds: "Optional[int]" = None
    steps: "Optional[int]" = None
    watchSeconds: "Optional[int]" = None


class TuningValue(DictMixin):
    r"""A number that is in force.

    **parameters**

    * **plugin** ``str`` - The plugin.
    * **value** ``float`` - Its value.
    * **argument** ``Optional[str]`` - The path of the argument; empty for the weight of the plugin's score.
    """

    plugin: "str"
    value: "float"
    argument: "Optional[str]" = None


class TuningReading(DictMixin):
    r"""Live figures at one time.

    **parameters**

    * **figures** ``Optional[Dict[str, float]]`` - By name.
    """

    figures: "Optional[Dict[str, float]]" = None


class TuningRecord(DictMixin):
    r"""Something that happened to a proposal.

    **parameters**

    * **message** ``Optional[str]`` - Why, in words.
    * **phase** ``Optional[str]`` - The phase since then.
    * **reason** ``Optional[str]`` - Why, in one word.
    * **time** ``Optional[meta_v1.Time]`` - When.
    """

    message: "Optional[str]" = None
    phase: "Optional[str]" = None
    reason: "Optional[str]" = None
    time: "Optional[meta_v1.Time]" = None


class TuningProposalStatus(DictMixin):
    r"""How far a proposal has come, and which values are in force.

    **parameters**

    * **before** ``Optional[Dict[str, float]]`` - Live figures before the change.
    * **conditions** ``Optional[List[meta_v1.Condition]]`` - InForce: whether its values are, and why.
    * **history** ``Optional[List[TuningRecord]]`` - What happened, the latest 30.
    * **lastReadingTime** ``Optional[meta_v1.MicroTime]`` - When live figures were read last.
    * **lastStepTime** ``Optional[meta_v1.MicroTime]`` - When the values changed last.
    * **now** ``Optional[Dict[str, float]]`` - Live figures at the last reading.
    * **observedGeneration** ``Optional[int]`` - The generation that this is about.
    * **phase** ``Optional[str]`` - Proposed, Measuring, Applying, Watching, Kept, RolledBack or Refused.
    * **readings** ``Optional[List[TuningReading]]`` - Readings before the change, while they are taken.
    * **startTime** ``Optional[meta_v1.MicroTime]`` - When it left the phase Proposed.
    * **step** ``Optional[int]`` - The step that is in force.
    * **values** ``Optional[List[TuningValue]]`` - The values that are in force.
    * **worse** ``Optional[int]`` - How many readings in a row were beyond a bound.
    """

    before: "Optional[Dict[str, float]]" = None
    conditions: "Optional[List[meta_v1.Condition]]" = None
    history: "Optional[List[TuningRecord]]" = None
    lastReadingTime: "Optional[meta_v1.MicroTime]" = None
    lastStepTime: "Optional[meta_v1.MicroTime]" = None
    now: "Optional[Dict[str, float]]" = None
    observedGeneration: "Optional[int]" = None
    phase: "Optional[str]" = None
    readings: "Optional[List[TuningReading]]" = None
    startTime: "Optional[meta_v1.MicroTime]" = None
    step: "Optional[int]" = None
    values: "Optional[List[TuningValue]]" = None
    worse: "Optional[int]" = None


class TuningProposal(DictMixin):
    r"""Other weights or thresholds for the scheduler, with the simulation that speaks for them.

    **parameters**

    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **kind** ``Optional[str]`` - The kind of this object: TuningProposal.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - Its name and the like.
    * **spec** ``Optional[TuningProposalSpec]`` - What is to change, and when it is taken back.
    * **status** ``Optional[TuningProposalStatus]`` - How far it has come; set by the server.
    """

    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    spec: "Optional[TuningProposalSpec]" = None
    status: "Optional[TuningProposalStatus]" = None


class WhatIfCount(DictMixin):
    r"""A pod of which as many as possible are placed after everything else. Give requests or pod.

    **parameters**

    * **most** ``Optional[int]`` - Where the count ends; 100000 if it is not given, which is the limit.
    * **pod** ``Optional[Dict[str, Any]]`` - The manifest of the pod, or of a workload with a template for it.
    * **requests** ``Optional[Dict[str, Quantity]]`` - The pod's requests, if it needs nothing else.
    """

    most: "Optional[int]" = None
    pod: "Optional[Dict[str, Any]]" = None
    requests: "Optional[Dict[str, Quantity]]" = None


class WhatIfNodes(DictMixin):
    r"""Nodes that would be added.

    **parameters**

    * **allocatable** ``Dict[str, Quantity]`` - What pods may take of each of them.
    * **number** ``int`` - How many there are.
    * **labels** ``Optional[Dict[str, str]]`` - Their labels.
    * **name** ``Optional[str]`` - The first part of their names; node if it is not given.
    """

    allocatable: "Dict[str, Quantity]"
    number: "int"
    labels: "Optional[Dict[str, str]]" = None
    name: "Optional[str]" = None


class WhatIfPool(DictMixin):
    r"""A pool of nodes that would be larger.

    **parameters**

    * **matchLabels** ``Dict[str, str]`` - The nodes of the pool have all of these labels.
    * **times** ``int`` - How many times as large it would be.
    """

    matchLabels: "Dict[str, str]"
    times: "int"


class WhatIfSpec(DictMixin):
    r"""What would be different. All of it applies together.

    **parameters**

    * **addNodes** ``Optional[List[WhatIfNodes]]`` - Nodes that would be added.
    * **configuration** ``Optional[Dict[str, Any]]`` - A KubeSchedulerConfiguration that would be in force.
    * **count** ``Optional[WhatIfCount]`` - How many more pods of one shape would fit then.
    * **drain** ``Optional[List[str]]`` - Names of nodes that would be drained.
    * **pods** ``Optional[List[Dict[str, Any]]]`` - Manifests of new pods, or of workloads with a template for pods.
    * **reschedule** ``Optional[bool]`` - Whether all pods would be placed again.
    * **scalePools** ``Optional[List[WhatIfPool]]`` - Pools of nodes that would be larger.
    """

    addNodes: "Optional[List[WhatIfNodes]]" = None
    configuration: "Optional[Dict[str, Any]]" = None
    count: "Optional[WhatIfCount]" = None
    drain: "Optional[List[str]]" = None
    pods: "Optional[List[Dict[str, Any]]]" = None
    reschedule: "Optional[bool]" = None
    scalePools: "Optional[List[WhatIfPool]]" = None


class WhatIfPod(DictMixin):
    r"""What becomes of a pod.

    **parameters**

    * **cause** ``str`` - Why it needs a node: new, pending, drained, rescheduled or preempted.
    * **pod** ``str`` - Its namespace and name.
    * **from_** ``Optional[str]`` - Its node now.
    * **preemptor** ``Optional[str]`` - The pod that preempts it.
    * **to** ``Optional[str]`` - The node that it gets.
    * **unchanged** ``Optional[bool]`` - Whether this holds without the changes, too.
    * **why** ``Optional[str]`` - Why it gets no node.
    """

    cause: "str"
    pod: "str"
    from_: "Optional[str]" = field(metadata={"json": "from"}, default=None)
    preemptor: "Optional[str]" = None
    to: "Optional[str]" = None
    unchanged: "Optional[bool]" = None
    why: "Optional[str]" = None


class WhatIfResident(DictMixin):
    r"""A pod of a drained node that stays there, or is lost.

    **parameters**

    * **node** ``str`` - Its node.
    * **pod** ``str`` - Its namespace and name.
    * **why** ``str`` - The reason.
    """

    node: "str"
    pod: "str"
    why: "str"


class WhatIfNumber(DictMixin):
    r"""How many more pods fit, without preemption.

    **parameters**

    * **number** ``int`` - How many find a node.
    * **atLeast** ``Optional[bool]`` - Whether there may be room for more, since the count ended at its limit.
    * **why** ``Optional[str]`` - Why the next one would wait.
    """

    number: "int"
    atLeast: "Optional[bool]" = None
    why: "Optional[str]" = None


class WhatIfShare(DictMixin):
    r"""The part of a resource that pods request, as thousandths of what the nodes have.

    **parameters**

    * **after** ``int`` - With the changes.
    * **before** ``int`` - As the cluster is.
    * **resource** ``str`` - The resource: cpu, memory or gpu.
    """

    after: "int"
    before: "int"
    resource: "str"


class WhatIfStatus(DictMixin):
    r"""The answer. Pods that stay where they are do not appear.

    **parameters**

    * **allocated** ``Optional[List[WhatIfShare]]`` - How full the cluster would be, without the counted pods.
    * **count** ``Optional[WhatIfNumber]`` - How many more pods fit.
    * **fits** ``Optional[bool]`` - Whether every new pod finds a node; absent if there are none.
    * **lost** ``Optional[List[WhatIfResident]]`` - Pods of drained nodes that no controller creates again.
    * **moves** ``Optional[List[WhatIfPod]]`` - Pods that get another node.
    * **nodes** ``Optional[int]`` - How many nodes there would be.
    * **notes** ``Optional[List[str]]`` - What to know about the answer.
    * **placed** ``Optional[List[WhatIfPod]]`` - Pods without a node that get one.
    * **preempted** ``Optional[List[WhatIfPod]]`` - Pods that are evicted for more important ones.
    * **stays** ``Optional[List[WhatIfResident]]`` - Pods that stay on a drained node.
    * **waits** ``Optional[List[WhatIfPod]]`` - Pods that find no node.
    """

    allocated: "Optional[List[WhatIfShare]]" = None
    count: "Optional[WhatIfNumber]" = None
    fits: "Optional[bool]" = None
    lost: "Optional[List[WhatIfResident]]" = None
    moves: "Optional[List[WhatIfPod]]" = None
    nodes: "Optional[int]" = None
    notes: "Optional[List[str]]" = None
    placed: "Optional[List[WhatIfPod]]" = None
    preempted: "Optional[List[WhatIfPod]]" = None
    stays: "Optional[List[WhatIfResident]]" = None
    waits: "Optional[List[WhatIfPod]]" = None


class WhatIf(DictMixin):
    r"""A question about the cluster: what would happen if something were different. It is answered and not stored.

    **parameters**

    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **kind** ``Optional[str]`` - The kind of this object: WhatIf.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - Not used: questions are not stored.
    * **spec** ``Optional[WhatIfSpec]`` - The question.
    * **status** ``Optional[WhatIfStatus]`` - The answer; set by the server.
    """

    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    spec: "Optional[WhatIfSpec]" = None
    status: "Optional[WhatIfStatus]" = None


class ForecastRecord(DictMixin):
    r"""How good the forecasts of a resource were so far.

    **parameters**

    * **forecasts** ``Optional[int]`` - Forecasts whose horizon has passed.
    * **savings** ``Optional[float]`` - The mean part of the capacity that they left free.
    * **severity** ``Optional[float]`` - The mean part of the peak that was missing, over the violations.
    * **violations** ``Optional[int]`` - Forecasts that were too low.
    """

    forecasts: "Optional[int]" = None
    savings: "Optional[float]" = None
    severity: "Optional[float]" = None
    violations: "Optional[int]" = None


class ForecastResource(DictMixin):
    r"""The measured and the predicted use of one resource of a node.

    **parameters**

    * **resource** ``str`` - The name of the resource: cpu or memory.
    * **basis** ``Optional[str]`` - Measured, or why the request counts: Cold (too young) or Stale (no recent sample).
    * **deviation** ``Optional[str]`` - The standard deviation of the use.
    * **history** ``Optional[List[str]]`` - The maxima of past intervals, the oldest first; empty where one is missing.
    * **mean** ``Optional[str]`` - The mean use.
    * **peak** ``Optional[str]`` - The predicted peak within the horizon.
    * **record** ``Optional[ForecastRecord]`` - How good the forecasts were so far.
    * **requested** ``Optional[str]`` - What the pods of the node requested when it was measured.
    * **used** ``Optional[str]`` - What was used at the last measurement.
    """

    resource: "str"
    basis: "Optional[str]" = None
    deviation: "Optional[str]" = None
    history: "Optional[List[str]]" = None
    mean: "Optional[str]" = None
    peak: "Optional[str]" = None
    record: "Optional[ForecastRecord]" = None
    requested: "Optional[str]" = None
    used: "Optional[str]" = None


class NodeForecastStatus(DictMixin):
    r"""The load of a node, measured and predicted.

    **parameters**

    * **horizonSeconds** ``Optional[int]`` - The time that a predicted peak is for.
    * **intervalSeconds** ``Optional[int]`` - The time that one value of a history covers.
    * **observedTime** ``Optional[meta_v1.Time]`` - When the node was measured.
    * **resources** ``Optional[List[ForecastResource]]`` - By resource.
    * **source** ``Optional[str]`` - What measured the node: Metrics (metrics.k8s.io), Prometheus, or Worker (its own
      worker, which leaves batch pods out).
    """

    horizonSeconds: "Optional[int]" = None
    intervalSeconds: "Optional[int]" = None
    observedTime: "Optional[meta_v1.Time]" = None
    resources: "Optional[List[ForecastResource]]" = None
    source: "Optional[str]" = None


class NodeForecast(DictMixin):
    r"""The load of the node of the same name: what it uses, and the peak that is to be expected.

    **parameters**

    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **kind** ``Optional[str]`` - The kind of this object: NodeForecast.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - The name of the node.
    * **status** ``Optional[NodeForecastStatus]`` - The load.
    """

    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    status: "Optional[NodeForecastStatus]" = None


class ClusterShape(DictMixin):
    r"""A pod for which the headroom is given.

    **parameters**

    * **name** ``str`` - Its name in the status.
    * **requests** ``Dict[str, Quantity]`` - What it requests.
    * **weight** ``Optional[float]`` - How often such pods come, relative to the other shapes; 1 if not set.
    """

    name: "str"
    requests: "Dict[str, Quantity]"
    weight: "Optional[float]" = None


class ClusterPowerModel(DictMixin):
    r"""The power of machines by the use of their processors.

    **parameters**

    * **coresPerSocket** ``Optional[int]`` - For sockets: the cores of one; 24 if not set.
    * **full** ``Optional[float]`` - For linear, fan and sockets: watts when fully used; 250 if not set.
    * **idle** ``Optional[float]`` - For linear, fan and sockets: watts when idle; 100 if not set.
    * **k0** ``Optional[float]`` - For exponential, whose watts are k0 + k1 e^(k2 u) with u in percent.
    * **k1** ``Optional[float]`` - For exponential.
    * **k2** ``Optional[float]`` - For exponential.
    * **model** ``Optional[str]`` - linear, fan, table, exponential or sockets; linear if not set.
    * **name** ``Optional[str]`` - The value of the label rota.dev/power-model of its nodes; without a name it is
      for all others.
    * **sleepWatts** ``Optional[float]`` - Watts of a node without pods; 0 if not set.
    * **watts** ``Optional[List[float]]`` - For table: watts at equal steps of use, from idle to full.
    """

    coresPerSocket: "Optional[int]" = None
    full: "Optional[float]" = None
    idle: "Optional[float]" = None
    k0: "Optional[float]" = None
    k1: "Optional[float]" = None
    k2: "Optional[float]" = None
    model: "Optional[str]" = None
    name: "Optional[str]" = None
    sleepWatts: "Optional[float]" = None
    watts: "Optional[List[float]]" = None


class ClusterStateSpec(DictMixin):
    r"""Which nodes a state is about, and what it is measured with.

    **parameters**

    * **includeTainted** ``Optional[bool]`` - Whether nodes with taints that keep pods away count as free too.
    * **nodeSelector** ``Optional[Dict[str, str]]`` - The labels of its nodes; all nodes if not set.
    * **powerModels** ``Optional[List[ClusterPowerModel]]`` - Models of power. Without one there are no figures of
      power.
    * **shapes** ``Optional[List[ClusterShape]]`` - Pods for which the headroom is given, and by which fragments are
      judged; a small, a medium and a large one if not set.
    """

    includeTainted: "Optional[bool]" = None
    nodeSelector: "Optional[Dict[str, str]]" = None
    powerModels: "Optional[List[ClusterPowerModel]]" = None
    shapes: "Optional[List[ClusterShape]]" = None


class ClusterNodeCounts(DictMixin):
    r"""Numbers of nodes.

    **parameters**

    * **empty** ``Optional[int]`` - Without pods.
    * **ready** ``Optional[int]`` - Ready.
    * **schedulable** ``Optional[int]`` - That take pods: ready, not cordoned, and without a taint that keeps pods
      away.
    * **total** ``Optional[int]`` - All.
    """

    empty: "Optional[int]" = None
    ready: "Optional[int]" = None
    schedulable: "Optional[int]" = None
    total: "Optional[int]" = None


class ClusterPodCounts(DictMixin):
    r"""Numbers of pods that have not ended.

    **parameters**

    * **pending** ``Optional[int]`` - Without a node.
    * **placed** ``Optional[int]`` - On the nodes.
    """

    pending: "Optional[int]" = None
    placed: "Optional[int]" = None


class ClusterResource(DictMixin):
    r"""One resource of all nodes of a state.

    **parameters**

    * **resource** ``str`` - Its name.
    * **allocatable** ``Optional[str]`` - What the nodes offer to pods.
    * **capacity** ``Optional[str]`` - What the nodes have.
    * **fragmentation** ``Optional[float]`` - The expected share of what is free where a pod of the shapes does not
      fit.
    * **free** ``Optional[str]`` - What is left on nodes that take pods.
    * **measuredNodes** ``Optional[int]`` - Nodes with a recent measurement.
    * **peak** ``Optional[str]`` - The peaks that are expected of the measured nodes.
    * **pending** ``Optional[str]`` - What pods without a node request.
    * **record** ``Optional[ForecastRecord]`` - How good the forecasts of the nodes were so far.
    * **requested** ``Optional[str]`` - What the pods on the nodes request.
    * **stranded** ``Optional[str]`` - What is free on nodes where no pod of the shapes fits.
    * **used** ``Optional[str]`` - What the measured nodes use.
    """

    resource: "str"
    allocatable: "Optional[str]" = None
    capacity: "Optional[str]" = None
    fragmentation: "Optional[float]" = None
    free: "Optional[str]" = None
    measuredNodes: "Optional[int]" = None
    peak: "Optional[str]" = None
    pending: "Optional[str]" = None
    record: "Optional[ForecastRecord]" = None
    requested: "Optional[str]" = None
    stranded: "Optional[str]" = None
    used: "Optional[str]" = None


class ClusterHeadroom(DictMixin):
    r"""How many more pods of a shape fit.

    **parameters**

    * **shape** ``str`` - The name of the shape.
    * **mostOnOneNode** ``Optional[int]`` - The most that fit on one node.
    * **nodes** ``Optional[int]`` - Nodes on which at least one fits.
    * **pods** ``Optional[int]`` - On all nodes together.
    * **requests** ``Optional[Dict[str, str]]`` - What such a pod requests.
    """

    shape: "str"
    mostOnOneNode: "Optional[int]" = None
    nodes: "Optional[int]" = None
    pods: "Optional[int]" = None
    requests: "Optional[Dict[str, str]]" = None


class ClusterZone(DictMixin):
    r"""The nodes of one zone.

    **parameters**

    * **allocatable** ``Optional[Dict[str, str]]`` - What they offer to pods.
    * **nodes** ``Optional[int]`` - Their number.
    * **pods** ``Optional[int]`` - The pods on them.
    * **requested** ``Optional[Dict[str, str]]`` - What these pods request.
    * **zone** ``Optional[str]`` - The zone; empty for nodes without one.
    """

    allocatable: "Optional[Dict[str, str]]" = None
    nodes: "Optional[int]" = None
    pods: "Optional[int]" = None
    requested: "Optional[Dict[str, str]]" = None
    zone: "Optional[str]" = None


class ClusterOwner(DictMixin):
    r"""Where the pods of a workload are.

    **parameters**

    * **kind** ``Optional[str]`` - The kind of the workload; empty for pods without a controller.
    * **name** ``Optional[str]`` - The name of the workload.
    * **namespace** ``Optional[str]`` - Its namespace.
    * **nodes** ``Optional[int]`` - Nodes with such pods.
    * **pods** ``Optional[int]`` - Its pods on nodes.
    * **requested** ``Optional[Dict[str, str]]`` - What they request.
    * **zones** ``Optional[Dict[str, int]]`` - Its pods by zone.
    """

    kind: "Optional[str]" = None
    name: "Optional[str]" = None
    namespace: "Optional[str]" = None
    nodes: "Optional[int]" = None
    pods: "Optional[int]" = None
    requested: "Optional[Dict[str, str]]" = None
    zones: "Optional[Dict[str, int]]" = None


class ClusterPower(DictMixin):
    r"""The power of nodes by the models of the object.

    **parameters**

    * **asleepNodes** ``Optional[int]`` - Nodes without pods, which count as asleep.
    * **greatestWatts** ``Optional[float]`` - With every node fully used.
    * **watts** ``Optional[float]`` - Now. Nodes without a measurement count by requests.
    """

    asleepNodes: "Optional[int]" = None
    greatestWatts: "Optional[float]" = None
    watts: "Optional[float]" = None


class ClusterStateStatus(DictMixin):
    r"""The figures.

    **parameters**

    * **headroom** ``Optional[List[ClusterHeadroom]]`` - By shape.
    * **nodes** ``Optional[ClusterNodeCounts]`` - Numbers of nodes.
    * **observedTime** ``Optional[meta_v1.Time]`` - When they were computed.
    * **ownerCount** ``Optional[int]`` - How many workloads have pods on the nodes.
    * **owners** ``Optional[List[ClusterOwner]]`` - The 50 workloads that request the most cpu.
    * **pods** ``Optional[ClusterPodCounts]`` - Numbers of pods.
    * **power** ``Optional[ClusterPower]`` - Power, if the object has models.
    * **resources** ``Optional[List[ClusterResource]]`` - By resource.
    * **zones** ``Optional[List[ClusterZone]]`` - By zone.
    """

    headroom: "Optional[List[ClusterHeadroom]]" = None
    nodes: "Optional[ClusterNodeCounts]" = None
    observedTime: "Optional[meta_v1.Time]" = None
    ownerCount: "Optional[int]" = None
    owners: "Optional[List[ClusterOwner]]" = None
    pods: "Optional[ClusterPodCounts]" = None
    power: "Optional[ClusterPower]" = None
    resources: "Optional[List[ClusterResource]]" = None
    zones: "Optional[List[ClusterZone]]" = None


class ClusterState(DictMixin):
    r"""The state of a cluster, or of some of its nodes, in figures: headroom, fragments, power, forecasts, layout.

    **parameters**

    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **kind** ``Optional[str]`` - The kind of this object: ClusterState.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - Its name; the one named cluster is about all nodes and always
      exists.
    * **spec** ``Optional[ClusterStateSpec]`` - Which nodes, and how they are measured.
    * **status** ``Optional[ClusterStateStatus]`` - The figures.
    """

    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    spec: "Optional[ClusterStateSpec]" = None
    status: "Optional[ClusterStateStatus]" = None


class SchedulerInstanceSpec(DictMixin):
    r"""What a scheduler was started with.

    **parameters**

    * **host** ``Optional[str]`` - The machine that it runs on.
    * **podSelector** ``Optional[meta_v1.LabelSelector]`` - Pods that only schedulers with this selector decide. Without
      it the scheduler takes any pod.
    * **conflictCriterion** ``Optional[str]`` - As in the ShardMap's spec, for this scheduler.
    * **shardOf** ``Optional[str]`` - The ShardMap that it is a member of; default if not set.
    * **synchronisation** ``Optional[str]`` - As in the ShardMap's spec, for this scheduler.
    * **weight** ``Optional[int]`` - Its share of the pods, relative to the other members; 100 if not set.
    """

    conflictCriterion: "Optional[str]" = None
    host: "Optional[str]" = None
    podSelector: "Optional[meta_v1.LabelSelector]" = None
    shardOf: "Optional[str]" = None
    synchronisation: "Optional[str]" = None
    weight: "Optional[int]" = None


class SchedulerInstanceStatus(DictMixin):
    r"""What a scheduler reports about itself. Whether it lives is in its Lease.

    **parameters**

    * **boundPods** ``Optional[int]`` - Pods that it has bound since its start.
    * **conflicts** ``Optional[int]`` - Bindings that were refused because another scheduler was faster.
    * **decisionsPerSecond** ``Optional[float]`` - Attempts to place a pod in the last seconds, per second.
    * **heartbeatTime** ``Optional[meta_v1.Time]`` - When it reported last.
    * **load** ``Optional[float]`` - Processor time that it used in the last seconds, per second.
    * **observedEpoch** ``Optional[int]`` - The newest version of the shard map that it obeys.
    * **phase** ``Optional[str]`` - Active if it decides all pods that the map gives it, Waiting if it does not yet.
    * **queuedPods** ``Optional[int]`` - Pods that wait for its decision.
    """

    boundPods: "Optional[int]" = None
    conflicts: "Optional[int]" = None
    decisionsPerSecond: "Optional[float]" = None
    heartbeatTime: "Optional[meta_v1.Time]" = None
    load: "Optional[float]" = None
    observedEpoch: "Optional[int]" = None
    phase: "Optional[str]" = None
    queuedPods: "Optional[int]" = None


class SchedulerInstance(DictMixin):
    r"""One of several schedulers that share the pods of a cluster.

    **parameters**

    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **kind** ``Optional[str]`` - The kind of this object: SchedulerInstance.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - Its name and the like.
    * **spec** ``Optional[SchedulerInstanceSpec]`` - What it was started with.
    * **status** ``Optional[SchedulerInstanceStatus]`` - What it reports.
    """

    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    spec: "Optional[SchedulerInstanceSpec]" = None
    status: "Optional[SchedulerInstanceStatus]" = None


class ShardMapSpec(DictMixin):
    r"""What the operator chose for a shard map.

    **parameters**

    * **conflictCriterion** ``Optional[str]`` - When a binding is refused: Fine if the pod does not fit the node now,
      Coarse if another pod was bound there since the scheduler looked. Fine if not set.
    * **keepTogether** ``Optional[str]`` - Which pods always have the same scheduler: those of one Owner, or all of a
      Namespace. Owner if not set.
    * **synchronisation** ``Optional[str]`` - When a scheduler learns what others bind: Full for at once, RoundRobin for
      another part of the nodes in each round, FreshestFirst for the same with a preference for the part learned last.
      Full if not set.
    """

    conflictCriterion: "Optional[str]" = None
    keepTogether: "Optional[str]" = None
    synchronisation: "Optional[str]" = None


class ShardMapMember(DictMixin):
    r"""A scheduler that decides a share of the pods.

    **parameters**

    * **name** ``str`` - Its SchedulerInstance.
    * **podSelector** ``Optional[meta_v1.LabelSelector]`` - As in its SchedulerInstance.
    * **term** ``Optional[int]`` - How often its Lease had changed hands when it joined.
    * **weight** ``Optional[int]`` - Its share of the pods; the coordinator lowers it while its queue is too long.
    """

    name: "str"
    podSelector: "Optional[meta_v1.LabelSelector]" = None
    term: "Optional[int]" = None
    weight: "Optional[int]" = None


class ShardMapStatus(DictMixin):
    r"""The present shard map.

    **parameters**

    * **changeTime** ``Optional[meta_v1.Time]`` - When this version was written.
    * **epoch** ``Optional[int]`` - The version: one more with every change.
    * **keepTogether** ``Optional[str]`` - The keepTogether of the spec that this version was made with.
    * **members** ``Optional[List[ShardMapMember]]`` - The schedulers that decide pods.
    """

    changeTime: "Optional[meta_v1.Time]" = None
    epoch: "Optional[int]" = None
    keepTogether: "Optional[str]" = None
    members: "Optional[List[ShardMapMember]]" = None


class ShardMap(DictMixin):
    r"""Which of several schedulers decides a pod: the one with the highest hash of what the pod belongs to.

    **parameters**

    * **apiVersion** ``Optional[str]`` - The version of this object: rota.dev/v1alpha1.
    * **kind** ``Optional[str]`` - The kind of this object: ShardMap.
    * **metadata** ``Optional[meta_v1.ObjectMeta]`` - Its name and the like.
    * **spec** ``Optional[ShardMapSpec]`` - What the operator chose.
    * **status** ``Optional[ShardMapStatus]`` - The present map; written by the elected scheduler.
    """

    apiVersion: "Optional[str]" = None
    kind: "Optional[str]" = None
    metadata: "Optional[meta_v1.ObjectMeta]" = None
    spec: "Optional[ShardMapSpec]" = None
    status: "Optional[ShardMapStatus]" = None
