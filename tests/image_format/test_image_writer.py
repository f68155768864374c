from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.codecs import Buffer, find_codec
from image_format.errors import UnsupportedCodecError
from image_format.proto.fsimage_pb2 import FileSummary
from image_format.reader import ImageFile
from image_format.summary import Section, is_sub_section, parse_file
from image_format.writer import ImageWriter
from tests.image_format.image_support import (
    CODEC_NAMES,
    RECORDED,
    build_image,
    image_id,
    minimal_sections,
    recorded_images,
    store,
)

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(lambda name: not is_sub_section(name))


def rewrite(image: ImageFile, *, stored: bool) -> bytes:
    """Return the image rewritten in its FileSummary's order; `stored` copies sections without sub-sections."""
    out = bytearray()
    writer = ImageWriter(out.extend, image.layout_version, image.codec, template=image.summary)
    subs: dict[str, list[Section]] = {}
    for entry in image.sections:
        if is_sub_section(entry.name):
            subs.setdefault(entry.name.removesuffix("_SUB"), []).append(entry)
            continue
        # slices of a compressed section are separate streams, and no entry would mark their bounds
        sliced = bool(image.codec) and entry.name in subs
        if stored and not sliced:
            writer.copy_section(entry.name, image.stored_bytes(entry))
            continue
        with writer.section(entry.name) as section:
            for sub in sorted([] if sliced else subs.get(entry.name, []), key=lambda sub: sub.offset):
                section.write(image.stored_bytes(sub))
                section.cut()
            section.write(image.section_bytes(entry.name)[section.size :])
    writer.finish()
    return bytes(out)


def plain(path: Path) -> bool:
    return not any("compress" in part or part == "odd" for part in path.relative_to(RECORDED).parts)


@pytest.mark.recorded
@pytest.mark.parametrize("path", [path for path in recorded_images() if plain(path)], ids=image_id)
def test_uncompressed_images_are_rewritten_byte_for_byte(path: Path) -> None:
    with ImageFile.open(path) as image:
        data = path.read_bytes()
        assert rewrite(image, stored=False) == data
        if not any(is_sub_section(entry.name) for entry in image.sections):
            assert rewrite(image, stored=True) == data


@pytest.mark.recorded
@pytest.mark.parametrize("path", [path for path in recorded_images() if not plain(path)], ids=image_id)
@pytest.mark.parametrize("stored", [False, True])
def test_other_images_keep_their_sections(tmp_path: Path, path: Path, stored: bool) -> None:
    with (
        ImageFile.open(path) as image,
        ImageFile.open(store(tmp_path, rewrite(image, stored=stored), path.name)) as again,
    ):
        listed = [e.name for e in image.sections if not is_sub_section(e.name)]
        assert [e.name for e in again.sections if not is_sub_section(e.name)] == listed
        for name in listed:
            assert bytes(again.section_bytes(name)) == bytes(image.section_bytes(name))
        assert (again.codec, again.layout_version, again.txid) == (image.codec, image.layout_version, image.txid)


@pytest.mark.parametrize("codec", CODEC_NAMES)
@given(sections=st.dictionaries(names, st.lists(st.binary(max_size=400), max_size=4), max_size=6))
def test_round_trip(codec: str, sections: dict[str, list[bytes]]) -> None:
    out: list[bytes] = []
    writer = ImageWriter(lambda buffer: out.append(bytes(buffer)), -65, codec)
    for name, pieces in sections.items():
        with writer.section(name) as section:
            for piece in pieces:
                section.write(piece)
            assert section.size == sum(map(len, pieces))
    summary = writer.finish()
    data = b"".join(out)
    parsed = parse_file(memoryview(data))
    assert writer.position == len(data)
    assert parsed.message == summary
    assert [entry.name for entry in parsed.sections] == list(sections)
    position = 8
    for entry in parsed.sections:
        assert entry.offset == position
        position = entry.end
        stored = memoryview(data)[entry.offset : entry.end]
        body = b"".join(find_codec(codec).decompressor().decompress_iter(stored))
        assert body == b"".join(sections[entry.name])


def test_small_writes_are_batched_and_large_ones_are_not_copied() -> None:
    calls: list[Buffer] = []
    writer = ImageWriter(calls.append, -63)
    large = bytes(1 << 20)
    with writer.section("A") as section:
        for _ in range(3000):
            section.write(bytes(1000))
        section.write(large)
        section.write(b"tail")
    writer.finish()
    sizes = [memoryview(call).nbytes for call in calls]
    assert min(sizes[:2]) >= 1 << 20
    assert len(calls) == 5
    assert (
        sum(isinstance(call, memoryview) and call.obj is large for call in calls) + sum(call is large for call in calls)
        == 1
    )
    assert all(memoryview(call).readonly for call in calls)
    assert sum(sizes) == writer.position


def test_batches_are_not_reused() -> None:
    calls: list[Buffer] = []
    writer = ImageWriter(calls.append, -63)
    with writer.section("A") as section:
        for value in range(250):
            section.write(bytes([value]) * 20_000)
    writer.finish()
    data = b"".join(bytes(call) for call in calls)
    assert data[8 : 8 + 5_000_000] == b"".join(bytes([value]) * 20_000 for value in range(250))


def test_sub_sections_precede_their_section() -> None:
    out = bytearray()
    writer = ImageWriter(out.extend, -67)
    with writer.section("INODE") as section:
        for piece in (b"abc", b"", b"defg"):
            section.write(piece)
            section.cut()
    writer.add_entry("INODE_DIR_SUB", 10, 2)
    writer.finish()
    assert parse_file(memoryview(out)).sections == (
        Section("INODE_SUB", 8, 3),
        Section("INODE_SUB", 11, 4),
        Section("INODE", 8, 7),
        Section("INODE_DIR_SUB", 10, 2),
    )


@pytest.mark.parametrize(("offset", "length"), [(7, 1), (8, 6), (8, -1)])
def test_entries_must_be_inside_the_written_bytes(offset: int, length: int) -> None:
    writer = ImageWriter(bytearray().extend, -67)
    writer.copy_section("INODE", b"abcde")
    with pytest.raises(ValueError, match="is outside"):
        writer.add_entry("INODE_SUB", offset, length)


def test_calls_in_the_wrong_order_are_refused() -> None:
    writer = ImageWriter(bytearray().extend, -63)
    with writer.section("A"), pytest.raises(ValueError, match="section A is not complete"):
        writer.copy_section("B", b"")
    writer.finish()
    for use in (writer.finish, lambda: writer.copy_section("B", b"")):
        with pytest.raises(ValueError, match="the image is finished"):
            use()


def test_an_error_inside_a_section_leaves_no_image() -> None:
    out = bytearray()
    writer = ImageWriter(out.extend, -63)
    with pytest.raises(KeyError), writer.section("A") as section:
        section.write(b"half")
        raise KeyError
    with pytest.raises(ValueError, match="section A is not complete"):
        writer.finish()
    assert not out


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(UnsupportedCodecError):
        ImageWriter(bytearray().extend, -63, "org.example.NoSuchCodec")


def test_unknown_summary_fields_are_kept(tmp_path: Path) -> None:
    data = build_image(minimal_sections())
    template = FileSummary()
    template.ParseFromString(parse_file(memoryview(data)).message.SerializeToString() + b"\xe0\x03\x09")
    out = bytearray()
    writer = ImageWriter(out.extend, -63, template=template)
    for name, body in minimal_sections():
        writer.copy_section(name, body)
    writer.finish()
    with ImageFile.open(store(tmp_path, bytes(out))) as image:
        assert image.summary.SerializeToString().endswith(b"\xe0\x03\x09")
