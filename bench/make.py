"""`python -m bench.make DIR`: generates a name directory for inspection or for measurements by hand."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from bench.edits import MIXES
from bench.scene import make_edits, make_image


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.make", description=__doc__)
    parser.add_argument("folder", metavar="DIR", type=Path, help="new directory, which receives `current`")
    parser.add_argument("--inodes", type=int, default=1_000_000)
    parser.add_argument("--transactions", type=int, default=0)
    parser.add_argument("--mix", choices=tuple(MIXES), default="mixed")
    parser.add_argument("--snapshots", action="store_true", help="with snapshots in the image")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.folder.exists():
        parser.error(f"{arguments.folder} already exists")
    whole = arguments.folder if not arguments.transactions else arguments.folder / "base"
    base = make_image(whole, arguments.inodes, snapshots=arguments.snapshots, seed=arguments.seed)
    if arguments.transactions:
        seed = arguments.seed + 1
        made = make_edits(base, arguments.folder / "made", arguments.transactions, arguments.mix, seed=seed)
        made.path.parent.rename(arguments.folder / "current")
        shutil.rmtree(whole)
        (arguments.folder / "made").rmdir()
    print(arguments.folder / "current")


if __name__ == "__main__":
    main()
