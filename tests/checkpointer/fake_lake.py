"""A fake of the module that writes lakes, which records its arguments; a file next to the lake controls its
behaviour.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def main() -> None:
    lake = Path(sys.argv[-1])
    with (lake / "calls").open("a") as calls:
        calls.write(" ".join(sys.argv[1:]) + "\n")
    (lake / "conf").write_text(os.environ.get("HADOOP_CONF_DIR", ""))
    while (lake / "wait").exists():
        time.sleep(0.01)
    if (lake / "fail").exists():
        print("WARNING: something\nthe disk is full", file=sys.stderr)
        sys.exit(6)


if __name__ == "__main__":
    main()
