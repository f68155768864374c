"""A fake of `checkpointer report`, which records its arguments and limits; files next to the reports control its
behaviour.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path


def main() -> None:
    outputs = [Path(sys.argv[index + 1]) for index, word in enumerate(sys.argv) if word == "--out"]
    folder = outputs[0].parent
    with (folder / "calls").open("a") as calls:
        calls.write(" ".join(sys.argv[1:]) + "\n")
    outputs[0].write_text("page")
    while (folder / "wait").exists():
        time.sleep(0.01)
    if (folder / "fail").exists():
        print("checkpointer: the disk is full\n  next: Free space.", file=sys.stderr)
        sys.exit(6)
    # the daemon sets the limit just after the start
    while resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY:
        time.sleep(0.001)
    (folder / "limits").write_text(f"{os.nice(0)} {resource.getrlimit(resource.RLIMIT_DATA)[0]}")
    for path in outputs:
        path.write_text("report")


if __name__ == "__main__":
    main()
