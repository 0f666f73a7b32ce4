"""The table of verbs: the one place to look when adding one.

A line here and a module `rota.cli.<name>` (dashes become underscores) with a `command` make a verb. The module is
imported only when its verb is called, so that help and completion stay quick however many verbs there are; that is also
why the summaries stand here.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Verb:
    """A word that may follow `rota`."""

    name: str
    #: What the list of commands says of it: one line, no full stop.
    summary: str

    @property
    def module(self) -> str:
        """Where its `command` is defined."""
        return f"rota.cli.{self.name.replace('-', '_')}"


#: By the heading under which `rota --help` lists them.
SECTIONS: Final[dict[str, tuple[Verb, ...]]] = {
    "Clusters": (
        Verb("up", "Start Rota on this machine"),
        Verb("master", "Start one of several masters on a shared store"),
        Verb("worker", "Let this machine work for a cluster"),
        Verb("status", "Show a cluster on one screen"),
        Verb("token", "Make, list and take back the tokens that workers join with"),
    ),
    "Tasks": (
        Verb("run", "Run a command where there is room, and show what it says"),
        Verb("submit", "Submit the objects of YAML or JSON files"),
        Verb("get", "Show objects of any kind"),
        Verb("describe", "Show an object with what belongs to it and what happened"),
        Verb("logs", "Print what tasks have written"),
        Verb("exec", "Run a command beside a task, where it runs"),
        Verb("top", "Show what nodes or tasks use"),
        Verb("delete", "Delete objects, and end what runs"),
        Verb("pipeline", "Run work in steps that depend on each other, and follow it"),
    ),
    "Nodes": (
        Verb("cordon", "Place no new tasks on nodes"),
        Verb("uncordon", "Place new tasks on nodes again"),
        Verb("drain", "Move the tasks of a node elsewhere"),
        Verb("rebalance", "Move tasks to where the scheduler would put them today"),
        Verb("spot", "See spot machines and their notices, and try one out"),
    ),
    "Scheduling": (
        Verb("decide", "Say where a pod would go, and why, without a cluster"),
        Verb("explain", "Say why a pod is where it is, or what keeps it waiting"),
        Verb("replay", "Make recorded decisions again, or by another configuration"),
        Verb("scheduler", "Schedule the pods of any Kubernetes cluster"),
        Verb("extender", "Give the stock kube-scheduler a policy for spot machines"),
        Verb("spot-controller", "Leave spot machines in time when they are taken away"),
    ),
    "Federation": (Verb("federation", "Decide about many clusters as one, by Karmada's policies"),),
    "Data": (
        Verb("backup", "Write a consistent backup of a store to a file"),
        Verb("restore", "Fill an empty store from a backup"),
        Verb("encryption", "See and change the keys that Secrets are encrypted with"),
    ),
    "Measuring": (Verb("bench", "Measure speed, as ratios to a reference of the same run"),),
    "This program": (
        Verb("help", "Explain a command, or a subject such as exit-codes"),
        Verb("completion", "Print a script that completes commands in your shell"),
        Verb("version", "Say which version this is and what it runs on"),
    ),
}

VERBS: Final[dict[str, Verb]] = {verb.name: verb for verbs in SECTIONS.values() for verb in verbs}
