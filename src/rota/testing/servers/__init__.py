"""Private databases for tests: started in a temporary folder, never shared, never left behind."""
