"""The cluster as NumPy columns: interning, snapshots, deltas, kernels. Pure."""
