"""The engine of one member cluster: it applies Works there and reports statuses, health and capacity.

The control plane runs it for members that it connects to (push), the agent runs it inside a member (pull). Only the
clients differ.
"""
