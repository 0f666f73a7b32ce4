"""Events about objects, for people: see `recorder.EventRecorder`."""
