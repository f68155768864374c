"""Ways to write a report."""
