"""Leaders that tests of leadership share."""

from __future__ import annotations

from dataclasses import replace

from checkpointer.leadership.leadership_state import Leader

ME = Leader(host="a", pid=1, role="standby", address="a:9870", since=1.0)
OTHER = Leader(host="b", pid=2, role="standby", address="b:9870", since=2.0)
ANOTHER = replace(OTHER, pid=3)
