"""Messages of small sections, read one after another."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import BufferOrigin
from image_format.kernels.tags import CreatedListEntry
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

_TAG = CreatedListEntry.name
_SHORTEST_LONG_NAME = 126


def _reader(data: bytes) -> MessageReader:
    return MessageReader(np.frombuffer(data, np.uint8), BufferOrigin("x"))


@given(st.lists(st.binary(max_size=300)))
def test_messages_with_a_single_field_are_read_alike(names: list[bytes]) -> None:
    reader = _reader(b"".join(encode_delimited(pb.CreatedListEntry(name=name)) for name in names))
    for name in names:
        found = reader.field_alone(_TAG)
        assert found == (name if len(name) < _SHORTEST_LONG_NAME else None)
        if found is None:
            assert reader.read(pb.CreatedListEntry).name == name
    assert reader.done


@given(
    st.builds(
        lambda size, tag, rest: bytes((size, tag, size - 2)) + rest,
        st.integers(2, 40),
        st.sampled_from((_TAG, _TAG + 1, _TAG | 0x80)),
        st.binary(max_size=40),
    )
    | st.binary(max_size=40)
)
def test_field_alone_consumes_its_whole_message(data: bytes) -> None:
    reader = _reader(data)
    found = reader.field_alone(_TAG)
    if found is None:
        assert reader.position == 0
        return
    behind = reader.position
    again = _reader(data)
    entry = again.read(pb.CreatedListEntry)
    assert (entry.name, again.position, entry.SerializeToString()) == (found, behind, data[1:behind])


def test_field_alone_refuses_a_truncated_message() -> None:
    entry = encode_delimited(pb.CreatedListEntry(name=b"name"))
    for size in range(len(entry)):
        reader = _reader(entry[:size])
        assert reader.field_alone(_TAG) is None
        assert reader.position == 0
