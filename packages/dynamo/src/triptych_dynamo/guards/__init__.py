"""Guards: facts that a trace took for granted (`facts`), compiled for C (`program`) and checked in Python (`python_check`)."""
