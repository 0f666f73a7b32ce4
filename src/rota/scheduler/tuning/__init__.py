"""Tuning: weights and thresholds of the scheduler configuration that TuningProposals change while it is in force.

`parameters` reads and sets them, `live_figures` has what a proposal is judged by, `proposals` decides what becomes of a
proposal; all three are pure. `tuning_controller` writes the status, and `tuning_follower` puts the values of proposals
on top of the configuration of a process. The search for better values is in `rota.simulator.tuner`.
"""
