"""Who may do what: RBAC, the node authorizer, and what follows from their verdicts."""
