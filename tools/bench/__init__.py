"""Benchmark of eager PyTorch, torch.compile and triptych on models of the `transformers` library.

Run ``python -m tools.bench --help``. One model, one mode and one compiler is measured in one fresh process with empty
caches (``worker``); ``runner`` starts the processes, ``report`` makes the table, the JSON file and the plot.
"""
