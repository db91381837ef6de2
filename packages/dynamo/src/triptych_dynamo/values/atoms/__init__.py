"""Numbers, strings and other atoms: known while tracing, or symbols of the graph."""
