"""MultiClusterServices: Services whose backends in some clusters are reached from others."""
