"""Options of `spark.read` for our data sources: rejects unknown names and invalid values with one clear error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pipeline.archive_query import ArchiveQuery
from pipeline.errors import SourceOptionError
from pipeline.schema import Table

_OF_TABLES = {"owner", "provider"}
"""Table properties of Spark's TableCatalog that CREATE TABLE adds to the options."""
_PATHS = "paths"
_ARCHIVE = "archive"
_OF_ARCHIVES = ("as_of", "branch", "key_file")
_TOKEN_TABLES = {"tokens", "summary"}
"""Tables with rows for delegation tokens; images restored for other tables do not contain tokens."""
_SWITCHES = {"true": True, "false": False}


class SourceOptions:
    """The options of the data source `source`, which accepts the names in `known` in upper or lower case.

    Raises:
        SourceOptionError: an option is unknown, or the path is missing.
    """

    def __init__(self, source: str, known: Sequence[str], options: Mapping[str, str]) -> None:
        self._source = source
        self._given = {name.lower(): value for name, value in options.items()}
        if set(self._given) >= _OF_TABLES:
            raise self._is_table()
        unknown = sorted(set(self._given) - set(known) - {_PATHS})
        if unknown:
            raise SourceOptionError(
                f"{source} has no option {', '.join(unknown)}", hint=f"Its options are {', '.join(known)}."
            )
        self.paths = self._read_paths()
        """One or more paths, from `load(PATH)` or `load([PATH, ...])`."""

    def _read_paths(self) -> tuple[str, ...]:
        several = self._given.get(_PATHS)
        one = self._given.get("path")
        # PySpark's `load` encodes a list of paths as JSON.
        paths = tuple(json.loads(several)) if several else (one,) if one else ()
        if _ARCHIVE in self._given:
            if paths:
                raise SourceOptionError(
                    f"{self._source} has both a path and the option {_ARCHIVE}",
                    hint="Give either the path or the option, not both.",
                )
            return (self._archive_query().uri,)
        if alone := [name for name in _OF_ARCHIVES if name in self._given]:
            raise SourceOptionError(
                f"{self._source} has the option {alone[0]} without {_ARCHIVE}", hint=f"Add option {_ARCHIVE}."
            )
        if not paths or not all(paths):
            raise SourceOptionError(f"{self._source} needs a path", hint="Add the path: .load(PATH).")
        return paths

    def _archive_query(self) -> ArchiveQuery:
        of_archive = {name: self._given[name] for name in _OF_ARCHIVES if name in self._given}
        return ArchiveQuery(
            self._given[_ARCHIVE],
            tokens=self.text("table", "").strip().lower() in _TOKEN_TABLES,
            from_txid=self.integer("from_txid", least=0),
            to_txid=self.integer("to_txid", least=0),
            **of_archive,
        )

    def text(self, name: str, default: str) -> str:
        return self._given.get(name, default)

    def integer(self, name: str, *, least: int) -> int | None:
        """Return the value of an integer option, at least `least`; None if the option is not given.

        Raises:
            SourceOptionError: the value is not an integer, or is less than `least`.
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
        """Return the value of a boolean option; False if the option is not given.

        Raises:
            SourceOptionError: the value is not a boolean.
        """
        return self.choice(name, tuple(_SWITCHES), "false") == "true"

    def choice(self, name: str, values: Sequence[str], default: str) -> str:
        """Return one of `values`, or `default` if the option is not given.

        Raises:
            SourceOptionError: the value is not allowed.
        """
        text = self._given.get(name, default).strip().lower()
        if text not in values:
            raise self._fault(name, text, f"one of {', '.join(values)}")
        return text

    def columns(self, table: Table) -> Table:
        """Return `table` with the columns that the `columns` option lists, or with all columns if it is not given.

        Raises:
            SourceOptionError: a name is not a column of the table, or occurs twice.
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
            f"Spark does not store options of a table for {self._source}, so a query could not find the path",
            hint=f"Create a view: CREATE TEMPORARY VIEW NAME USING {self._source} OPTIONS (path '{path}').",
        )

    def _fault(self, name: str, text: str, wanted: str) -> SourceOptionError:
        return SourceOptionError(f"{self._source}: option {name} is {text!r}", hint=f"Use {wanted}.")
