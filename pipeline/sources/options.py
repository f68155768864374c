"""Options of `spark.read` for our data sources: known names only, values checked, one error that says what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.errors import SourceOptionError
from pipeline.schema import Table

_SWITCHES = {"true": True, "false": False}


class SourceOptions:
    """The options given to the data source `source`, which knows those in `known`; their case does not matter.

    Raises:
        SourceOptionError: an option that the data source does not know, or no path.
    """

    def __init__(self, source: str, known: Sequence[str], options: Mapping[str, str]) -> None:
        self._source = source
        self._given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(set(self._given) - set(known))
        if unknown:
            raise SourceOptionError(
                f"{source} has no option {', '.join(unknown)}", hint=f"It knows: {', '.join(known)}."
            )
        if not self._given.get("path"):
            raise SourceOptionError(f"{source} needs a path", hint="Give one: .load(PATH).")

    @property
    def path(self) -> str:
        return self._given["path"]

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

    def _fault(self, name: str, text: str, wanted: str) -> SourceOptionError:
        return SourceOptionError(f"{self._source}: option {name} is {text!r}", hint=f"It has to be {wanted}.")
