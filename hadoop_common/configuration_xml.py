"""The XML of Hadoop configuration files: properties in order, XInclude of local files, no DOCTYPE."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

from hadoop_common.configuration_errors import ConfigurationError, ConfigurationFault

MAX_INCLUDE_DEPTH = 20
_XINCLUDE = "{http://www.w3.org/2001/XInclude}"


@dataclass(frozen=True, slots=True)
class Property:
    """One `<property>` as written; `source` is the file that holds it."""

    name: str
    value: str
    final: bool
    source: str


class _RefusingTreeBuilder(ElementTree.TreeBuilder):
    """A document type is how entity bombs and external entities come in; no configuration needs one."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise _DoctypeError(f"<!DOCTYPE {name}> is refused: entities are not read")


class _DoctypeError(Exception):
    pass


def read_properties(path: Path, load: Callable[[Path], bytes] = Path.read_bytes) -> list[Property]:
    """Properties of the file at `path` and of the files it includes, in document order.

    Raises:
        ConfigurationError: a file cannot be read, is no configuration XML, has a DOCTYPE, or includes
            something that is not a local file.
    """
    return list(_read(path, load, ()))


def _read(path: Path, load: Callable[[Path], bytes], parents: tuple[Path, ...]) -> Iterator[Property]:
    if path in parents or len(parents) >= MAX_INCLUDE_DEPTH:
        chain = " -> ".join(str(each) for each in (*parents, path))
        raise _fault(path, f"XInclude is circular or deeper than {MAX_INCLUDE_DEPTH}: {chain}")
    root = _parse(path, load)
    if root.tag != "configuration":
        raise _fault(path, f"the root element is <{root.tag}>, expected <configuration>")
    yield from _walk(root, path, load, parents)


def _parse(path: Path, load: Callable[[Path], bytes]) -> ElementTree.Element:
    try:
        data = load(path)
    except OSError as fault:
        raise _fault(path, f"cannot be read: {fault.strerror or fault}") from fault
    parser = ElementTree.XMLParser(target=_RefusingTreeBuilder())
    try:
        parser.feed(data)
        root: ElementTree.Element = parser.close()
    except _DoctypeError as fault:
        raise _fault(path, str(fault)) from fault
    except (ElementTree.ParseError, LookupError, ValueError) as fault:
        raise _fault(path, f"is not well-formed XML: {fault}") from fault
    return root


def _walk(
    element: ElementTree.Element, path: Path, load: Callable[[Path], bytes], parents: tuple[Path, ...]
) -> Iterator[Property]:
    for child in element:
        if child.tag == "property":
            found = _property(child, path)
            if found is not None:
                yield found
        elif child.tag == "configuration":
            yield from _walk(child, path, load, parents)
        elif child.tag == _XINCLUDE + "include":
            yield from _include(child, path, load, parents)


def _property(element: ElementTree.Element, path: Path) -> Property | None:
    name = element.findtext("name", element.get("name"))
    value = element.findtext("value", element.get("value"))
    final = element.findtext("final", element.get("final", ""))
    if name is None or not name.strip():
        raise _fault(path, "a <property> has no <name>")
    if value is None:
        return None
    return Property(name.strip(), value, final.strip().lower() == "true", str(path))


def _include(
    element: ElementTree.Element, path: Path, load: Callable[[Path], bytes], parents: tuple[Path, ...]
) -> Iterator[Property]:
    target = _include_target(element, path)
    fallback = element.find(_XINCLUDE + "fallback")
    if fallback is not None and not target.is_file():
        yield from _walk(fallback, path, load, parents)
        return
    yield from _read(target, load, (*parents, path))


def _include_target(element: ElementTree.Element, path: Path) -> Path:
    href = element.get("href", "")
    parts = urlsplit(href)
    if not href or parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise _fault(path, f"XInclude of {href!r}: only local files can be included")
    if element.get("parse", "xml") != "xml":
        raise _fault(path, f"XInclude of {href!r}: only parse='xml' can be included")
    return path.parent / unquote(parts.path)


def _fault(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError([ConfigurationFault(str(path), problem)])
