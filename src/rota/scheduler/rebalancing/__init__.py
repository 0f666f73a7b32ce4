"""Rebalancing: moves running pods if the cluster has drifted from what the scheduler would decide now.

`cluster_view` and `drift_measures` describe the cluster, `planner` and `protection` choose the moves, `rebalancer`
evicts, `policies` and `policy_controller` run it by the RebalancePolicy of the cluster. Spot machines are not handled
here (`rota.spot_control`).
"""
