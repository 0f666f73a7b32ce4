"""The loops of a federation's control plane: they watch, call one decision each, and write what it says.

`federation.py` runs them all; each loop has a module. Decisions are in the other folders of the room.
"""
