"""Random Python programs, each run plain and compiled: every difference in what can be observed is a bug.

`grammar` says of what programs are made, `writer` writes one from a seed, `outcome` runs it and turns all that can be
observed (value, types, identities, mutations, order of side effects, output, exceptions) into plain data.
"""
