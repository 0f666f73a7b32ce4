"""The container runtime: images, OCI bundles, and the engine (crun) that runs them."""
