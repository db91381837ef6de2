"""What the program says to the capture: marks, directives, output that waits."""
