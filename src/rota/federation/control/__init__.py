"""The controllers of a federation's control plane: each watches, calls one decision, and writes the result.

`federation.py` runs them all; each controller has a module. Decisions are in the other folders of the package.
"""
