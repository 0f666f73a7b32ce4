"""Informers: local copies of collections, kept up to date by watches; see `informer.Informer`."""
