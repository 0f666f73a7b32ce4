"""The Common Expression Language (CEL) as Kubernetes uses it: parsing, type checks, cost estimates and evaluation.

`environment.Environment.compile` turns an expression into a `environment.Program`; everything else serves that. An
expression is type-checked when it is declared, and evaluation counts its cost and stops at a limit, so expressions of
any client are safe to run. No I/O here.
"""
