"""The one way to the API: verbs, informers, work queue, leader election, event recorder; over HTTP or in-process."""
