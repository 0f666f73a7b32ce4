"""StatefulSets: pods with numbers, names and volumes that stay theirs."""
