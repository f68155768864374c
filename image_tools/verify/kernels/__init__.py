"""Compiled walks over whole sections; each fills arrays that the checks read."""
