"""Messages inside edit log operations, compiled by `hatch_build.py`."""
