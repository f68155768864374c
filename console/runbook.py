"""Documents of docs/ as HTML, including the runbook that alarms link to."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.md")
_PACKAGED = Path(__file__).parent / "docs"
# the documents of the source tree, from which a build copies the packaged documents
_SOURCE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Document:
    """Document with its title, and its text as HTML without scripts."""

    title: str
    body: Markup


@functools.lru_cache(maxsize=32)
def document(name: str) -> Document | None:
    """Return the document `name`, such as operations.md, or None if it does not exist."""
    if not _NAME.fullmatch(name):
        return None
    path = _path_of(name)
    return None if path is None else _rendered(path.read_text(encoding="utf-8"))


def _path_of(name: str) -> Path | None:
    folders = (_PACKAGED,) if _PACKAGED.is_dir() else (_SOURCE / "docs", _SOURCE)
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def anchor(title: str) -> str:
    """Return the anchor of a heading, as GitHub creates it."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def _rendered(text: str) -> Document:
    # raw HTML is shown as text
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens, title = parser.parse(text), ""
    for heading, inline in itertools.pairwise(tokens):
        if heading.type == "heading_open":
            words = "".join(each.content for each in inline.children or () if each.type in ("text", "code_inline"))
            heading.attrSet("id", anchor(words))
            title = title or words
    for token in tokens:
        _adapt_links(token.children or ())
    html = parser.renderer.render(tokens, parser.options, {})
    # a wide table or listing can also be scrolled with the keyboard
    html = html.replace("<table>", '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>')
    html = html.replace("</table>", "</table></div>").replace("<pre>", '<pre tabindex="0">')
    html = html.replace("<th></th>", "<td></td>")
    return Document(title, Markup(html))


def _adapt_links(tokens: Sequence[Any]) -> None:
    """Keep links to anchors and to these documents; convert all other links to text, because they lead to other
    servers.
    """
    leads_away = False
    for token in tokens:
        if token.type == "link_open":
            address = str(token.attrGet("href") or "")
            path = address.partition("#")[0].removeprefix("../")
            leads_away = bool(path) and not (_NAME.fullmatch(path) and _path_of(path))
            if leads_away:
                token.tag, token.attrs = "span", {}
            else:
                token.attrSet("href", address.removeprefix("../"))
        elif token.type == "link_close" and leads_away:
            token.tag, leads_away = "span", False
        elif token.type == "image":
            token.type = "text"
