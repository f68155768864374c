"""The tags in kernels equal the tags that the protobuf library writes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from image_format.kernels import tags
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_varint
from tests.image_format.kernel_folders import FOLDERS, ROOT

BARE_TAG = re.compile(
    r"\b(?:tag|field|kind|block_type|found|present) (?:==|!=|<=?|>=?|&) [1-9]"
    r"|tag >> 3\)? (?:==|-) \d|& 7 == \d|\b(?:entry|packed|value|permission)\b.{0,12} (?:>>|<<) (?:3|6|16|40)\b"
)


def _value(field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        return None
    return {FieldDescriptor.TYPE_STRING: "a", FieldDescriptor.TYPE_BYTES: b"a"}.get(field.type, 1)


@pytest.mark.parametrize("name", [name for name, value in vars(tags).items() if isinstance(value, tuple)])
def test_tags_equal_those_that_protobuf_writes(name: str) -> None:
    named = getattr(tags, name)
    for field in getattr(pb, name).DESCRIPTOR.fields:
        message = getattr(pb, name)()
        value = _value(field)
        if field.is_repeated:
            values = getattr(message, field.name)
            values.add() if value is None else values.append(value)
        elif value is None:
            getattr(message, field.name).SetInParent()
        else:
            setattr(message, field.name, value)
        written = message.SerializePartialToString()
        assert written.startswith(encode_varint(getattr(named, field.name))), field.name


@pytest.mark.parametrize("folder", FOLDERS)
def test_kernels_define_no_tags(folder: str) -> None:
    """Kernels define no tags, no enumerations, and no bits of a permission, an ACL entry or an xattr's name."""
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted((ROOT / folder).glob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if BARE_TAG.search(line)
    ]
    assert found == []
