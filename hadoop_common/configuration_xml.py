"""The XML of Hadoop's configuration files, parsed as Hadoop 3 does (Configuration.Parser).

Elements are recognised by their local names, anywhere, in document order. Some forms that only Hadoop 2.7 accepts are
also supported: text XIncludes (parse="text"), an href that is relative to the including file, and %20 for a space in
an href. Entities and document types must be local files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, urlsplit
from xml.parsers import expat

from hadoop_common.configuration_errors import ConfigurationError, ConfigurationFault
from hadoop_common.regular_file import open_regular

MAX_INCLUDE_DEPTH = 20
_FETCH_SECONDS = 10
_ROOT = "configuration"
_TEXTS = frozenset({"name", "value", "final", "source", "tag"})
_JAVA_SPACE = "".join(map(chr, range(33)))


@dataclass(frozen=True, slots=True)
class Property:
    """One `<property>` as written.

    Attributes:
        name: name; if it is "", Hadoop ignores the property.
        value: text; if it is None, Hadoop keeps the earlier value but applies `final`.
        source: the file that contains the property.
    """

    name: str
    value: str | None
    final: bool
    source: str


def _whole_file(path: Path) -> bytes:
    with open_regular(path) as source:
        return source.read()


def read_properties(path: Path, load: Callable[[Path], bytes] = _whole_file) -> list[Property]:
    """Return the properties of the file at `path` and of the files it includes, in document order.

    Raises:
        ConfigurationError: a file cannot be read or is not well-formed, or `path` is another kind of XML.
    """
    parser = _Parser(path, path.parent, load, ())
    found = parser.parse(_content(path, load))
    if not found and parser.root != _ROOT:
        raise _fault(path, f"the root element is <{parser.root}>, expected <{_ROOT}>")
    return found


class _MissingError(Exception):
    """Lack of the target of an XInclude, whose fallback then applies; the message gives the reason."""


class _Parser:
    """Parser of one file.

    As in Hadoop 3, one pair of flags per file, not per element, controls fallbacks. `_fallback_allowed` is set once an
    href is missing, and `_in_fallback` once a `<fallback>` begins. Both remain set until the next `</include>`. The
    parser skips properties in a fallback that is not allowed.
    """

    def __init__(
        self, place: Path | str, folder: Path, load: Callable[[Path], bytes], parents: tuple[str, ...]
    ) -> None:
        self.root = ""
        self._place = place
        self._folder = folder
        self._load = load
        self._parents = parents
        self._found: list[Property] = []
        self._name = ""
        self._value: str | None = None
        self._final = False
        self._text: list[str] | None = None
        self._href = ""
        self._missing = ""
        self._fallback_allowed = False
        self._in_fallback = False
        self._text_included = False
        self._expat = expat.ParserCreate()

    def parse(self, data: bytes) -> list[Property]:
        """Return the properties in `data`.

        Raises:
            ConfigurationError: `data` is not well-formed, or an included file is unusable.
        """
        parser = self._expat
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.ExternalEntityRefHandler = self._external_entity
        parser.SkippedEntityHandler = self._skipped_entity
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
        self._feed(parser, data)
        return self._found

    def _feed(self, parser: expat.XMLParserType, data: bytes) -> None:
        try:
            parser.Parse(data, True)
        except (expat.ExpatError, LookupError, ValueError) as fault:
            raise self._fault(f"is not well-formed XML: {fault}") from fault

    # ---- elements ------------------------------------------------------------------------------------------

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = _local_name(tag)
        self.root = self.root or name
        if name == "property":
            self._begin_property(_by_local_name(attributes))
        elif name in _TEXTS:
            self._text = []
        elif name == "include":
            self._begin_include(_by_local_name(attributes))
        elif name == "fallback":
            self._in_fallback = True

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._text_included:
            self._text.append(text)

    def _end(self, tag: str) -> None:
        name = _local_name(tag)
        text = "".join(self._text or ())
        if name == "name":
            self._name = text.strip(_JAVA_SPACE) if text else self._name
        elif name == "value":
            self._value = text or self._value
        elif name == "final":
            self._final = text == "true"
        elif name == "include":
            self._end_include()
        elif name == "property" and (self._fallback_allowed or not self._in_fallback):
            self._found.append(Property(self._name, self._value, self._final, str(self._place)))

    def _begin_property(self, attributes: Mapping[str, str]) -> None:
        self._name = attributes.get("name", "").strip(_JAVA_SPACE)
        self._value = attributes.get("value")
        self._final = attributes.get("final") == "true"

    # ---- XInclude ------------------------------------------------------------------------------------------

    def _begin_include(self, attributes: Mapping[str, str]) -> None:
        self._href = attributes.get("href", "")
        if "href" not in attributes:
            return
        try:
            if attributes.get("parse") == "text":
                self._include_text(attributes.get("encoding", "utf-8"))
            else:
                self._found += self._included(self._target(self._folder, self._href))
        except _MissingError as missing:
            self._missing, self._fallback_allowed = str(missing), True

    def _end_include(self) -> None:
        if self._fallback_allowed and not self._in_fallback:
            self._found += self._included_as_by_hadoop2()
        self._fallback_allowed = self._in_fallback = self._text_included = False

    def _included_as_by_hadoop2(self) -> list[Property]:
        folder = self._place.parent if isinstance(self._place, Path) else self._folder
        try:
            return self._included(self._target(folder, unquote(self._href)))
        except _MissingError:
            raise self._fault(f"XInclude of {self._href!r}: {self._missing}") from None

    def _include_text(self, encoding: str) -> None:
        target = self._target(self._folder, self._href)
        data = self._data(target)
        try:
            self._characters(data.decode(encoding).lstrip("\ufeff"))
        except (LookupError, UnicodeDecodeError) as fault:
            raise self._fault(f"XInclude of {self._href!r}: is not {encoding} text") from fault
        self._text_included = True

    def _included(self, target: Path | str) -> list[Property]:
        parents = (*self._parents, str(self._place))
        if str(target) in parents or len(parents) >= MAX_INCLUDE_DEPTH:
            chain = " -> ".join((*parents, str(target)))
            raise self._fault(f"XInclude is circular or deeper than {MAX_INCLUDE_DEPTH}: {chain}")
        return _Parser(target, self._folder, self._load, parents).parse(self._data(target))

    def _target(self, folder: Path, href: str) -> Path | str:
        """Return the path or URL that `href` names; an unknown scheme counts as part of a file name."""
        parts = urlsplit(href)
        if parts.scheme in ("http", "https"):
            return href
        if parts.scheme == "file":
            return self._local_file(href)
        if not href:
            raise self._fault("an XInclude has an empty href")
        return folder / href

    def _data(self, target: Path | str) -> bytes:
        """Return the content of `target`.

        A file that exists but cannot be read is a fault, because its fallback would hide settings that NameNodes read
        from the file.
        """
        try:
            return self._load(target) if isinstance(target, Path) else _fetched(target)
        except (FileNotFoundError, NotADirectoryError) as fault:
            raise _MissingError(f"cannot be read: {fault.strerror}") from fault
        except OSError as fault:
            if isinstance(target, Path):
                raise _fault(target, f"cannot be read: {fault.strerror or fault}") from fault
            raise _MissingError(f"cannot be read: {fault}") from fault

    # ---- entities ------------------------------------------------------------------------------------------

    def _external_entity(self, context: str, base: str | None, system: str | None, public: str | None) -> int:
        """Parse a document type or an external entity in place."""
        del base, public
        folder = self._place.parent if isinstance(self._place, Path) else self._folder
        path = self._local_file(system or "") if urlsplit(system or "").scheme else folder / unquote(system or "")
        self._feed(self._expat.ExternalEntityParserCreate(context), _content(path, self._load))
        return 1

    def _skipped_entity(self, name: str, is_parameter: bool) -> NoReturn:
        del is_parameter
        raise self._fault(f"the entity {name} is not declared")

    def _local_file(self, url: str) -> Path:
        parts = urlsplit(url)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            raise self._fault(f"{url!r} is not a local file")
        return Path(unquote(parts.path))

    def _fault(self, problem: str) -> ConfigurationError:
        return _fault(self._place, problem)


def _content(path: Path, load: Callable[[Path], bytes]) -> bytes:
    try:
        return load(path)
    except OSError as fault:
        raise _fault(path, f"cannot be read: {fault.strerror or fault}") from fault


def _fetched(url: str) -> bytes:
    """Fetch a URL without a proxy, as Java does. `cluster_http` needs settings that are not known yet."""
    # imported here, because few configurations include a URL, and these imports take as long as reading a configuration
    import http.client
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_FETCH_SECONDS) as answer:
            data: bytes = answer.read()
    except http.client.HTTPException as fault:
        raise OSError(f"{type(fault).__name__} {fault}".strip()) from fault
    return data


def _by_local_name(attributes: Mapping[str, str]) -> dict[str, str]:
    return {_local_name(name): value for name, value in attributes.items()}


def _local_name(name: str) -> str:
    return name.rpartition(":")[2]


def _fault(place: Path | str, problem: str) -> ConfigurationError:
    return ConfigurationError([ConfigurationFault(str(place), problem)])
