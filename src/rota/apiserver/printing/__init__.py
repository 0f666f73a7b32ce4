"""What kubectl shows of objects: tables with the columns of each kind, and metadata without the rest."""
