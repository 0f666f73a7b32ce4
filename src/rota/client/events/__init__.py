"""Kubernetes Events about objects: `recorder.EventRecorder` writes them, `correlation` merges and limits them."""
