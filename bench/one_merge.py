"""One merge of a storage directory, its phases timed; prints one JSON object and removes the image it made."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from bench.generate import generate_edits, generate_image
from checkpointer.offline import merge_directory, plan_directory


def main() -> None:
    # The first calls load the compiled kernels, which a daemon does once in its life.
    with tempfile.TemporaryDirectory() as scratch:
        current = Path(scratch) / "current"
        current.mkdir()
        generate_image(current, 100)
        generate_edits(current, 100, 100)
        merge_directory(plan_directory(Path(scratch)))
    plan = plan_directory(Path(sys.argv[1]).parent)
    result = merge_directory(plan)
    for path in result.saved.paths:
        path.unlink()
        path.with_name(path.name + ".md5").unlink()
    timings = result.timings
    print(json.dumps({"scan": timings.load, "replay": timings.replay, "write": timings.save}))


if __name__ == "__main__":
    main()
