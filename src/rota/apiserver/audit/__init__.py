"""The audit log: who asked for what, when, from where, and what the answer was; in upstream's form."""
