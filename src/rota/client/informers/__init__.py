"""Local copies of what the API holds, kept up to date by watches: see `informer.Informer`."""
