"""What kubectl prints: tables with the columns of each kind, and objects reduced to metadata."""
