"""The cluster as this scheduler believes it to be: what the API server says, plus what it has decided itself."""
