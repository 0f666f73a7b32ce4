"""FederatedHPA: how many replicas metrics of several clusters ask for, and how fast the number may follow. Pure."""
