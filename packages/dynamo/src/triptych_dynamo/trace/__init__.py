"""One trace: the graph under construction, its inputs, guards, symbolic sizes and effects."""
