"""Lists, tuples, dictionaries, sets, ranges, and iterators over anything."""
