"""The node authorizer: a node's access to its own objects, its pods, and what these reference."""
