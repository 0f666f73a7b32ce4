"""EndpointSlices and Endpoints of Services: where connections to a Service go."""
