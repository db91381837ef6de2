"""Guards: facts that a trace relied on (`facts`), compiled for C (`program`), checked in Python (`python_check`)."""
