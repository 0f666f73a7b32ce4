"""From informer events to the cache and the queue: decoding, event handlers, the shape cache, the watched kinds."""
