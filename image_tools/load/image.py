"""Writes an image from its XML: sections are streamed; NS_INFO and the string table follow at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO
from xml.etree import ElementTree

from google.protobuf.message import Message

from hadoop_common.quantities import counted
from image_format.layout import MIN_MERGE_LAYOUT, NEWEST_LAYOUT, LayoutVersion, supports
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringTable
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter, SectionWriter, Sink
from image_tools.load import messages
from image_tools.load.messages import ElementFields, ImageTextError, MessageBuilder

_ROOT = "fsimage"
_MASK_BITS = 3
_Event = tuple[str, ElementTree.Element]


def load_image(source: BinaryIO, sink: Sink, codec: str = "", report: Callable[[int], None] = lambda _: None) -> int:
    """Write the image of the XML `source`; return its transaction id.

    The XML lacks the start of a rolling upgrade, and the last allocated block group becomes the highest block group of
    a file.

    Args:
        codec: class name of the compression codec, or "" for no compression.
        report: called with the number of written inodes.

    Raises:
        ImageTextError: the XML does not describe an image of Hadoop 3, or contains data that an image cannot represent.
    """
    try:
        return _ImageDocument(source, sink, codec, report).load()
    except ElementTree.ParseError as fault:
        raise ImageTextError(f"the document is not well-formed: {fault}") from fault
    except (LookupError, ValueError) as fault:
        raise ImageTextError(f"a value is invalid: {fault}") from fault


class _CarriageReturnFilter:
    """Stream that preserves carriage returns, which Hadoop prints unescaped and an XML parser would replace."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes.

        Raises:
            ImageTextError: the document is UTF-16 or UTF-32, in which the byte of a carriage return can be a part of
                another character.
        """
        piece = self._source.read(size)
        if b"\0" in piece:
            raise ImageTextError("the document is not UTF-8: it contains zero bytes")
        return piece.replace(b"\r", b"&#13;")


class _ImageDocument:
    """Reader of the document and writer of the image; sections are written in loading order."""

    def __init__(self, source: BinaryIO, sink: Sink, codec: str, report: Callable[[int], None]) -> None:
        self._events: Iterator[_Event] = ElementTree.iterparse(_CarriageReturnFilter(source), events=("start", "end"))
        self._sink, self._codec, self._report = sink, codec, report
        self._highest_group = 0
        self._sections: set[str] = set()

    def load(self) -> int:
        _, root = self._next()
        if root.tag != _ROOT:
            raise ImageTextError(f"the document is <{root.tag}>, expected <{_ROOT}>")
        self._layout = self._version()
        separate = supports(LayoutVersion.EXPANDED_STRING_TABLE, self._layout)
        self._strings = StringTable.empty(_MASK_BITS if separate else 0)
        self._messages = MessageBuilder(self._strings)
        self._image = ImageWriter(self._sink, self._layout, self._codec)
        info: pb.NameSystemSection | None = None
        while (found := self._next())[0] == "start":
            element = found[1]
            if element.tag == "NameSection":
                info = self._name_section(self._whole(element))
            else:
                self._section(element)
            root.clear()
        if info is None:
            raise ImageTextError("the document has no <NameSection>")
        self._finish(info)
        return int(info.transactionId)

    # ---- the document --------------------------------------------------------------------------------------

    def _next(self) -> _Event:
        found = next(self._events, None)
        if found is None:
            raise ImageTextError("the document ends before its root element")
        return found

    def _whole(self, element: ElementTree.Element) -> ElementFields:
        """Read an element to its end."""
        while True:
            event, found = self._next()
            if event == "end" and found is element:
                return ElementFields(element)

    def _records(self, section: ElementTree.Element) -> Iterator[ElementFields]:
        """Yield each inner element of a section when it ends, and release it afterwards."""
        while (found := self._next())[0] == "start":
            yield self._whole(found[1])
            section.clear()

    def _version(self) -> int:
        event, element = self._next()
        if event != "start" or element.tag != "version":
            raise ImageTextError("the document has no <version>: it is not from a viewer of Hadoop 3")
        fields = self._whole(element)
        layout = int(fields.text("layoutVersion"))
        if not NEWEST_LAYOUT <= layout <= MIN_MERGE_LAYOUT:
            known = f"{MIN_MERGE_LAYOUT.value} to {NEWEST_LAYOUT.value}"
            raise ImageTextError(f"the layout version {layout} is outside {known}")
        fields.text("onDiskVersion")
        fields.text("oivRevision", "")
        fields.finish()
        return layout

    # ---- sections ------------------------------------------------------------------------------------------

    def _section(self, element: ElementTree.Element) -> None:
        readers: dict[str, tuple[str, Callable[[ElementTree.Element, SectionWriter], None]]] = {
            "ErasureCodingSection": ("ERASURE_CODING", self._erasure_coding),
            "INodeSection": ("INODE", self._inodes),
            "INodeReferenceSection": ("INODE_REFERENCE", self._references),
            "SnapshotSection": ("SNAPSHOT", self._snapshots),
            "INodeDirectorySection": ("INODE_DIR", self._directories),
            "FileUnderConstructionSection": ("FILES_UNDERCONSTRUCTION", self._open_files),
            "SnapshotDiffSection": ("SNAPSHOT_DIFF", self._diffs),
            "SecretManagerSection": ("SECRET_MANAGER", self._secrets),
            "CacheManagerSection": ("CACHE_MANAGER", self._caches),
        }
        if element.tag not in readers:
            raise ImageTextError(f"the section <{element.tag}> is unknown")
        name, read = readers[element.tag]
        if name in self._sections:
            raise ImageTextError(f"the document has two <{element.tag}> sections")
        self._sections.add(name)
        with self._image.section(name) as out:
            read(element, out)

    def _name_section(self, fields: ElementFields) -> pb.NameSystemSection:
        info = pb.NameSystemSection(
            namespaceId=fields.number("namespaceId", 32),
            genstampV1=fields.number("genstampV1"),
            genstampV2=fields.number("genstampV2"),
            genstampV1Limit=fields.number("genstampV1Limit"),
            lastAllocatedBlockId=fields.number("lastAllocatedBlockId"),
            transactionId=fields.number("txid"),
        )
        fields.finish()
        return info

    def _erasure_coding(self, element: ElementTree.Element, out: SectionWriter) -> None:
        found = pb.ErasureCodingSection(policies=map(messages.policy, self._records(element)))
        out.write(encode_delimited(found))

    def _inodes(self, element: ElementTree.Element, out: SectionWriter) -> None:
        header, count = pb.INodeSection(), 0
        for fields, text in self._with_head(element, ("lastInodeId", "numInodes")):
            if fields is None:
                header = pb.INodeSection(lastInodeId=int(text[0]), numInodes=int(text[1]))
                out.write(encode_delimited(header))
                continue
            inode = self._messages.inode(fields)
            if inode.file.HasField("erasureCodingPolicyID"):
                self._highest_group = max([self._highest_group, *(block.blockId for block in inode.file.blocks)])
            out.write(encode_delimited(inode))
            count += 1
            self._report(count)
        if count != header.numInodes:
            raise ImageTextError(f"<INodeSection> declares {counted(header.numInodes, 'inode')} but has {count}")

    def _with_head(
        self, section: ElementTree.Element, tags: tuple[str, ...]
    ) -> Iterator[tuple[ElementFields | None, list[str]]]:
        """Yield (None, strings of the first elements), then (element, these strings) for each further element.

        The names of the first elements must be `tags`.
        """
        texts = []
        for tag in tags:
            event, element = self._next()
            if event != "start" or element.tag != tag:
                raise ImageTextError(f"<{section.tag}> does not begin with {', '.join(tags)}")
            self._whole(element)
            texts.append(element.text or "")
        section.clear()
        yield None, texts
        for fields in self._records(section):
            yield fields, texts

    def _references(self, element: ElementTree.Element, out: SectionWriter) -> None:
        for fields in self._records(element):
            out.write(encode_delimited(messages.reference(fields)))

    def _directories(self, element: ElementTree.Element, out: SectionWriter) -> None:
        for fields in self._records(element):
            entry = pb.DirEntry(
                parent=fields.number("parent"),
                children=fields.numbers("child"),
                refChildren=fields.numbers("refChild", 32),
            )
            fields.finish()
            out.write(encode_delimited(entry))

    def _open_files(self, element: ElementTree.Element, out: SectionWriter) -> None:
        for fields in self._records(element):
            entry = pb.FileUnderConstructionEntry(inodeId=fields.number("id"), fullPath=fields.text("path"))
            fields.finish()
            out.write(encode_delimited(entry))

    def _snapshots(self, element: ElementTree.Element, out: SectionWriter) -> None:
        fields = self._whole(element)
        snapshottable = fields.inner("snapshottableDir")
        header = pb.SnapshotSection(
            snapshotCounter=fields.number("snapshotCounter", 32), numSnapshots=fields.number("numSnapshots", 32)
        )
        if snapshottable is not None:
            header.snapshottableDir.extend(snapshottable.numbers("dir"))
            snapshottable.finish()
        found: list[Message] = []
        for each in fields.each("snapshot"):
            root = each.inner("root")
            if root is None:
                raise ImageTextError("<snapshot> has no <root>")
            found.append(pb.Snapshot(snapshotId=each.number("id", 32), root=self._messages.inode(root)))
            each.finish()
        fields.finish()
        _write(out, header, found, header.numSnapshots, "snapshots")

    def _diffs(self, element: ElementTree.Element, out: SectionWriter) -> None:
        for fields in self._records(element):
            kind = fields.tag
            of_file = kind == "fileDiffEntry"
            if not of_file and kind != "dirDiffEntry":
                raise ImageTextError(f"<SnapshotDiffSection> has an unknown element <{kind}>")
            entry = pb.DiffEntry(
                type=pb.DiffEntry.FILEDIFF if of_file else pb.DiffEntry.DIRECTORYDIFF,
                inodeId=fields.number("inodeId"),
                numOfDiff=fields.number("count", 32),
            )
            found: list[Message] = []
            diffs = list(fields.each("fileDiff" if of_file else "dirDiff"))
            for each in diffs:
                if of_file:
                    found.append(self._messages.file_diff(each))
                else:
                    diff, created = self._messages.directory_diff(each)
                    found += [diff, *created]
            fields.finish()
            if len(diffs) != entry.numOfDiff:
                raise ImageTextError(f"<{kind}> declares {counted(entry.numOfDiff, 'diff')} but has {len(diffs)}")
            out.write(b"".join(map(encode_delimited, [entry, *found])))

    def _secrets(self, element: ElementTree.Element, out: SectionWriter) -> None:
        fields = self._whole(element)
        header = pb.SecretManagerSection(
            currentId=fields.number("currentId", 32),
            tokenSequenceNumber=fields.number("tokenSequenceNumber", 32),
            numKeys=fields.number("numDelegationKeys", 32),
            numTokens=fields.number("numTokens", 32),
        )
        keys = list(map(messages.delegation_key, fields.each("delegationKey")))
        tokens = list(map(messages.token, fields.each("token")))
        fields.finish()
        _write(out, header, [*keys, *tokens], header.numKeys + header.numTokens, "keys and tokens")

    def _caches(self, element: ElementTree.Element, out: SectionWriter) -> None:
        fields = self._whole(element)
        header = pb.CacheManagerSection(
            nextDirectiveId=fields.number("nextDirectiveId"),
            numDirectives=fields.number("numDirectives", 32),
            numPools=fields.number("numPools", 32),
        )
        pools = list(map(messages.pool, fields.each("pool")))
        directives = list(map(messages.directive, fields.each("directive")))
        fields.finish()
        _write(out, header, [*pools, *directives], header.numPools + header.numDirectives, "pools and directives")

    def _finish(self, info: pb.NameSystemSection) -> None:
        if "INODE" not in self._sections:
            raise ImageTextError("the document has no <INodeSection>")
        if "ERASURE_CODING" not in self._sections and supports(LayoutVersion.ERASURE_CODING, self._layout):
            with self._image.section("ERASURE_CODING") as out:
                out.write(encode_delimited(pb.ErasureCodingSection()))
        if self._highest_group:
            info.lastAllocatedStripedBlockId = self._highest_group
        with self._image.section("NS_INFO") as out:
            out.write(encode_delimited(info))
        with self._image.section("STRING_TABLE") as out:
            out.write(self._strings.encode())
        self._image.finish()


def _write(out: SectionWriter, header: Message, records: list[Message], count: int, what: str) -> None:
    if len(records) != count:
        raise ImageTextError(f"the document declares {count} {what} but has {len(records)}")
    out.write(b"".join(map(encode_delimited, [header, *records])))
