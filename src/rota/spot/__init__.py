"""Spot machines: telling them apart, hearing that they go, what a workload wants of them, and when to leave."""
