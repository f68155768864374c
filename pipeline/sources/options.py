"""Options of `spark.read` for our data sources: known names only, values checked, one error that says what there is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pipeline.errors import SourceOptionError
from pipeline.schema import Table

_OF_TABLES = {"owner", "provider"}
"""Properties of a table (Spark's TableCatalog), which CREATE TABLE adds to the options."""
_PATHS = "paths"
_SWITCHES = {"true": True, "false": False}


class SourceOptions:
    """The options given to the data source `source`, which knows those in `known`; their case does not matter.

    Raises:
        SourceOptionError: an option that the data source does not know, or no path.
    """

    def __init__(self, source: str, known: Sequence[str], options: Mapping[str, str]) -> None:
        self._source = source
        self._given = {name.lower(): value for name, value in options.items()}
        if set(self._given) >= _OF_TABLES:
            raise self._is_table()
        unknown = sorted(set(self._given) - set(known) - {_PATHS})
        if unknown:
            raise SourceOptionError(
                f"{source} has no option {', '.join(unknown)}", hint=f"It knows: {', '.join(known)}."
            )
        self.paths = self._read_paths()
        """One or more, from `load(PATH)` or `load([PATH, ...])`."""

    def _read_paths(self) -> tuple[str, ...]:
        several = self._given.get(_PATHS)
        one = self._given.get("path")
        # PySpark's `load` writes a list of paths as JSON
        paths = tuple(json.loads(several)) if several else (one,) if one else ()
        if not paths or not all(paths):
            raise SourceOptionError(f"{self._source} needs a path", hint="Give one: .load(PATH).")
        return paths

    def text(self, name: str, default: str) -> str:
        """The text as it was given, `default` where it is not."""
        return self._given.get(name, default)

    def integer(self, name: str, *, least: int) -> int | None:
        """A number of at least `least`, None where it is not given.

        Raises:
            SourceOptionError: it is no such number.
        """
        text = self._given.get(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise self._fault(name, text, f"a number of at least {least}")
        return value

    def switch(self, name: str) -> bool:
        """True or false, which it is where it is not given.

        Raises:
            SourceOptionError: it is neither.
        """
        return self.choice(name, tuple(_SWITCHES), "false") == "true"

    def choice(self, name: str, values: Sequence[str], default: str) -> str:
        """One of `values`.

        Raises:
            SourceOptionError: it is none of them.
        """
        text = self._given.get(name, default).strip().lower()
        if text not in values:
            raise self._fault(name, text, f"one of {', '.join(values)}")
        return text

    def columns(self, table: Table) -> Table:
        """`table` with the columns of option `columns`, comma separated; with all where it is not given.

        Raises:
            SourceOptionError: one of them is no column of the table, or is named twice.
        """
        text = self._given.get("columns")
        if text is None:
            return table
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in names if name not in table.names]
        if unknown or not names or len(set(names)) < len(names):
            raise self._fault("columns", text, f"names, once each, of {', '.join(table.names)}")
        return table.select(names)

    def _is_table(self) -> SourceOptionError:
        path = self._given.get("path", "PATH")
        return SourceOptionError(
            f"Spark keeps no options of a table for {self._source}, so that a query could not find the path",
            hint=f"Make a view: CREATE TEMPORARY VIEW NAME USING {self._source} OPTIONS (path '{path}').",
        )

    def _fault(self, name: str, text: str, wanted: str) -> SourceOptionError:
        return SourceOptionError(f"{self._source}: option {name} is {text!r}", hint=f"It has to be {wanted}.")
