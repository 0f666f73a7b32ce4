"""One module per database that can hold the store; each fills the same contract."""
