"""Makes docs/opcodes.md of the catalogue, the table of replay and the recorded cases.

python -m tests.tools.opcode_table            prints the page
python -m tests.tools.opcode_table --write    writes it to docs/opcodes.md
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from engine.replay.table import REPLAYED
from journal.binary_codec import NEWEST_LAYOUT, OLDEST_LAYOUT
from journal.operation import EditOp
from journal.ops import OPERATIONS

__all__ = ["PAGE", "page", "recorded_cases", "uncovered", "unhandled"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "opcodes.md"
RELEASES = {"2.7.3": -63, "3.4.1": -67}
SHOWN = 3  # cases named in a row
UNIT_TESTS = "tests/checkpointer/test_replay_opcodes.py"

Cases = Mapping[str, Mapping[str, list[str]]]

_HEAD = f"""\
# Operations of the edit log

Made by `python -m tests.tools.opcode_table --write` from the catalogue of operations (`journal.ops`), the table of
replay (`engine.replay.table`) and the recorded cases; a test compares.

* *layouts*: the layout versions whose logs may hold the operation, of those that are read at all,
  {OLDEST_LAYOUT} .. {NEWEST_LAYOUT} (smaller is newer). Fields that came with a layout of their own are named.
* *releases*: which of the two recorded releases writes it. One that is read only comes from logs of older releases.
* *handler*: the function in `engine.replay` that applies it.
* *kernel*: its compiled twin in `engine.replay.kernels`, for an operation that is frequent. A test replays each of them
  both ways (`tests/checkpointer/test_replay_twins.py`).
* *recorded in*: cases under `tests/recorded` whose edits hold it and whose image is compared with Hadoop's own after
  replay; how many there are, and the first few. The binary, XML and JSON codecs of every operation are tested on
  generated values as well (`tests/journal`).

Opcodes 5 and 6 (DATANODE_ADD, DATANODE_REMOVE) have no parser in either release and are an error. 255 ends a log.
"""


def recorded_cases() -> Cases:
    """Operation, release, then the names of the cases whose edits hold it; directed cases before random ones."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted((ROOT / "tests" / "recorded").glob("hadoop-*/*/case.json")):
        release = path.parent.parent.name.removeprefix("hadoop-")
        for name in json.loads(path.read_text())["ops"]:
            found["OP_" + name][release].append(path.parent.name)
    for releases in found.values():
        for cases in releases.values():
            cases.sort(key=lambda case: (case.startswith(("random", "medium", "compress")), case))
    return found


def unhandled() -> list[str]:
    """Operations without a replay function."""
    return [cls.name for cls in OPERATIONS.values() if cls not in REPLAYED]


def uncovered(cases: Cases) -> list[str]:
    """Operations that no recorded case holds."""
    return [cls.name for cls in OPERATIONS.values() if not cases.get(cls.name)]


def page() -> str:
    """The whole page."""
    cases = recorded_cases()
    rows = "".join(_row(cls, cases) for _, cls in sorted(OPERATIONS.items()))
    return (
        f"{_HEAD}\n| opcode | name | layouts | releases | handler | kernel | recorded in |\n{'|---' * 7}|\n{rows}\n"
        f"Without a handler: {_listed(unhandled())}. In no recorded case: {_listed(uncovered(cases))}.\n"
    )


def _row(cls: type[EditOp], cases: Cases) -> str:
    cells = (str(cls.opcode), cls.name, _layouts(cls), _releases(cls), _handler(cls), _kernel(cls), _tests(cls, cases))
    return f"| {' | '.join(cells)} |\n"


def _layouts(cls: type[EditOp]) -> str:
    whole = "all" if cls.since is None else f"{cls.since} and newer"
    later = [item for item in cls.fields if item.since is not None and item.since != cls.since]
    return "; ".join([whole, *(f"`{item.name}` from {item.since}" for item in later)])


def _releases(cls: type[EditOp]) -> str:
    if not cls.written:
        return "read only"
    return ", ".join(release for release, layout in RELEASES.items() if cls.present_in(layout))


def _handler(cls: type[EditOp]) -> str:
    if cls not in REPLAYED:
        return "none"
    plain = REPLAYED[cls].plain
    return f"`{plain.__module__.rpartition('.')[2]}.{plain.__name__}`"


def _kernel(cls: type[EditOp]) -> str:
    kernel = REPLAYED[cls].kernel if cls in REPLAYED else ""
    return f"`{kernel}`" if kernel else ""


def _tests(cls: type[EditOp], cases: Cases) -> str:
    releases = cases.get(cls.name)
    if not releases:
        return f"`{UNIT_TESTS}`"
    return "; ".join(
        f"{release}: {len(names)} ({', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''})"
        for release, names in sorted(releases.items())
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def main(arguments: list[str]) -> None:
    if arguments == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())


if __name__ == "__main__":
    main(sys.argv[1:])
