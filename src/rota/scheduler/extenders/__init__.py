"""Extenders: programs outside of the scheduler that filter, rate, choose victims and bind. Asked between decisions."""
