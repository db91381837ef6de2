"""Capture on many architectures of `transformers`: graphs, breaks and right values, against torch.compile's capture."""
