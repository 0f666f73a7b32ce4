"""What is bound on which node, and the guarded promise that no node is sold twice: `shares`, `index`, `ledger`."""
