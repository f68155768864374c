"""Style sheet and script of the console; the daily reports share a part of the style sheet."""

from __future__ import annotations

import functools
from importlib.resources import files


@functools.cache
def base_style() -> str:
    """Return the styles of the frame: colours, bar, navigation, headings, tiles and findings."""
    return _text("base.css")


@functools.cache
def console_style() -> str:
    return base_style() + _text("console.css")


@functools.cache
def console_script() -> str:
    """Return the script, which replaces the page's content at intervals."""
    return _text("console.js")


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
