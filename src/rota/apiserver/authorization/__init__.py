"""Authorization: RBAC, the node authorizer, impersonation and access reviews."""
