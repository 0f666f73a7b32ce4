"""Services as tasks of this machine reach them: names, variables, and a proxy at the addresses of services."""
