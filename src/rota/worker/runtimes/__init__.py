"""Ways to run containers, behind one protocol."""
