"""The table of commands.

A line here and a module `rota.cli.<name>` (dashes become underscores) with a `command` make a command. The module is
imported only when the command is called, so help and completion stay quick. That is why the summaries are here.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Verb:
    """A command of `rota`."""

    name: str
    #: Its line in `rota --help`, without a full stop.
    summary: str

    @property
    def module(self) -> str:
        """The module that defines its `command`."""
        return f"rota.cli.{self.name.replace('-', '_')}"


#: Commands by their heading in `rota --help`.
SECTIONS: Final[dict[str, tuple[Verb, ...]]] = {
    "Clusters": (
        Verb("up", "Run a cluster on this machine"),
        Verb("master", "Run one of several masters on a shared store"),
        Verb("worker", "Run this machine as a worker of a cluster"),
        Verb("cluster", "Create, scale, upgrade and delete clusters over ssh"),
        Verb("status", "Show a cluster on one screen"),
        Verb("doctor", "Look for what is wrong with a cluster"),
        Verb("dashboard", "Open the dashboard of a cluster in a browser"),
        Verb("monitoring", "Print rules, alerts and dashboards for Prometheus"),
        Verb("support-bundle", "Write the state of a cluster to a file, without secrets"),
        Verb("token", "Create, list and delete the tokens that workers join with"),
    ),
    "Tasks": (
        Verb("run", "Run a command on a worker and print its output"),
        Verb("submit", "Submit the objects of YAML or JSON files"),
        Verb("get", "List objects of any kind"),
        Verb("describe", "Show an object in detail, with its dependents and events"),
        Verb("logs", "Print the output of tasks"),
        Verb("exec", "Run a command in the container of a task"),
        Verb("top", "Show the resource usage of nodes, tasks or leases"),
        Verb("delete", "Delete objects and terminate their tasks"),
        Verb("pipeline", "Run pipelines of steps that depend on each other"),
    ),
    "Batch": (
        Verb("job", "Run, list, suspend and resume batch jobs"),
        Verb("queue", "Make, list, open and close the queues of batch jobs"),
        Verb("batch-controller", "Run batch jobs and queues of any Kubernetes cluster"),
    ),
    "Nodes": (
        Verb("cordon", "Mark nodes as unschedulable"),
        Verb("uncordon", "Mark nodes as schedulable"),
        Verb("drain", "Evict the tasks of a node"),
        Verb("rebalance", "Move tasks to where the scheduler would place them now"),
        Verb("forecast", "Show the past and the predicted load of nodes"),
        Verb("spot", "List spot nodes and notices, and simulate notices"),
    ),
    "Scheduling": (
        Verb("decide", "Place a pod offline and print the reasons"),
        Verb("explain", "Explain why a pod is on its node or pending"),
        Verb("replay", "Repeat recorded decisions, also with another configuration"),
        Verb("dump", "Write a cluster to a file that other commands read"),
        Verb("simulate", "Run a trace through scheduler configurations in virtual time"),
        Verb("tune", "Propose better weights of the scheduler, from a trace"),
        Verb("what-if", "Tell what would happen with other pods or nodes"),
        Verb("scheduler", "Schedule the pods of any Kubernetes cluster"),
        Verb("resolver", "Keep the schedulers of any Kubernetes from overselling nodes"),
        Verb("forecaster", "Publish forecasts of the nodes of any Kubernetes cluster"),
        Verb("extender", "Serve the spot policy to the stock kube-scheduler"),
        Verb("spot-controller", "Evacuate spot nodes before they are interrupted"),
    ),
    "Federation": (
        Verb("federation", "Run many clusters as one, by Karmada's policies"),
        Verb("federation-agent", "Serve a member of a federation from the inside"),
    ),
    "Data": (
        Verb("backup", "Write a consistent backup of a store to a file"),
        Verb("restore", "Fill an empty store from a backup"),
        Verb("level", "Show the level of a cluster, and raise it after an upgrade"),
        Verb("standby", "Keep a second store that follows another, and promote it"),
        Verb("encryption", "Show and rotate the keys that Secrets are encrypted with"),
    ),
    "Measuring": (Verb("bench", "Measure speed, as ratios to a reference of the same run"),),
    "This program": (
        Verb("help", "Show the help of a command, or of a topic such as exit-codes"),
        Verb("completion", "Print a script that completes commands in your shell"),
        Verb("version", "Print the version of Rota and of what it runs on"),
    ),
}

VERBS: Final[dict[str, Verb]] = {verb.name: verb for verbs in SECTIONS.values() for verb in verbs}
