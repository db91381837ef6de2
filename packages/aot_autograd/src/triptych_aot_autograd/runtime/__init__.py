"""Run time: what a compiled function does at each call, around its two graphs."""
