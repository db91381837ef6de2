"""Partitioners: split a joint graph into a forward and a backward graph, and choose what is saved between them."""
