"""Generated tables of the documents; `python -m tests.tools.doc_tables` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hadoop_common.config_key import ABSENT, ConfigKey
from image_tools.verify.catalogue import CODES
from site_config.catalogue import CATALOGUE
from site_config.keys import KEYS

DOCS = Path(__file__).parents[2] / "docs"


def honoured_keys() -> str:
    head = "| Key | Default | Unit | What it does |\n|---|---|---|---|"
    return _table(head, [f"| `{key.name}` | {_default(key)} | {key.kind.unit} | {_meaning(key)} |" for key in KEYS])


def other_keys() -> str:
    """Return the table of ignored and refused keys."""
    head = "| Key | Default | What it does in Hadoop | Here |\n|---|---|---|---|"
    rows = [
        f"| `{key.name}` | {_default(key)} | {key.meaning} | {key.status.value.capitalize()}: {key.reason}. |"
        for key in CATALOGUE[len(KEYS) :]
    ]
    return _table(head, rows)


def codes() -> str:
    """Return the table of an image's faults."""
    head = "| code | severity | meaning | repair |\n|---|---|---|---|"
    return _table(head, [f"| `{c.name}` | {c.severity} | {c.meaning} | {c.repair or '—'} |" for c in CODES.values()])


TABLES = {honoured_keys: "configuration.md", other_keys: "configuration.md", codes: "verify.md"}


def _table(head: str, rows: list[str]) -> str:
    return "\n".join([head, *rows]) + "\n"


def _default(key: ConfigKey[Any]) -> str:
    """Return the default, and the default of Hadoop 2.7 if it differs."""
    shown = _code(key.default)
    if key.release2 is None:
        return shown
    return f"{shown} (2.7: {'none' if key.release2 == ABSENT else _code(key.release2)})"


def _meaning(key: ConfigKey[Any]) -> str:
    return f"{key.meaning} Refused: {key.reason}." if key.reason else key.meaning


def _code(value: str) -> str:
    return f"`{value}`" if value else "unset"


def main() -> None:
    for table, name in TABLES.items():
        page = DOCS / name
        made = table()
        before, head, rest = page.read_text().partition(made.partition("\n|---")[0] + "\n|---")
        assert head, f"{name} has no such table"
        behind = rest.partition("\n\n")[2]
        page.write_text(before + made + (f"\n{behind}" if behind else ""))


if __name__ == "__main__":
    main()
