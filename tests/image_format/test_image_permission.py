from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import RecordError
from image_format.name_order import name_key
from image_format.permission import (
    AclBits,
    AclScope,
    AclType,
    Permission,
    XAttrName,
    XAttrNamespace,
    pack_acl_entry,
    pack_permission,
    pack_xattr_name,
    unpack_acl_entry,
    unpack_permission,
    unpack_xattr_name,
)

serials = st.integers(0, 2**24 - 1)


@given(serials, serials, st.integers(0, 0xFFFF))
def test_permission_round_trip(user: int, group: int, mode: int) -> None:
    packed = pack_permission(user, group, mode)
    assert unpack_permission(packed) == Permission(user, group, mode)
    assert packed < 2**64


def test_permission_bits() -> None:
    assert pack_permission(1, 2, 0o1755) == 0x00_0001_0000_0203ED
    assert pack_permission(0xFFFFFF, 0, 0) == 0xFFFFFF0000000000


@given(st.sampled_from(AclScope), st.sampled_from(AclType), serials, st.integers(0, 7))
def test_acl_entry_round_trip(scope: AclScope, type_: AclType, name: int, permission: int) -> None:
    packed = pack_acl_entry(scope, type_, name, permission)
    assert unpack_acl_entry(packed) == AclBits(scope, type_, name, permission)


def test_acl_entry_bits() -> None:
    assert pack_acl_entry(AclScope.DEFAULT, AclType.GROUP, 3, 5) == 3 << 6 | 1 << 5 | 1 << 3 | 5


@given(st.sampled_from(XAttrNamespace), serials)
def test_xattr_name_round_trip(namespace: XAttrNamespace, name: int) -> None:
    assert unpack_xattr_name(pack_xattr_name(namespace, name)) == XAttrName(namespace, name)


def test_xattr_name_bits() -> None:
    assert pack_xattr_name(XAttrNamespace.SYSTEM, 1) == 0xC0000040
    assert pack_xattr_name(XAttrNamespace.RAW, 1) == 0x00000060


@given(st.integers(0, 2**32 - 1))
def test_unpack_is_exact_or_raises(packed: int) -> None:
    for unpack, pack in ((unpack_acl_entry, pack_acl_entry), (unpack_xattr_name, pack_xattr_name)):
        with suppress(RecordError):
            assert pack(*unpack(packed)) == packed


@pytest.mark.parametrize("arguments", [(2**24, 0, 0), (0, -1, 0), (0, 0, 0x10000)])
def test_permission_parts_must_fit(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        pack_permission(*arguments)


def test_acl_and_xattr_parts_must_fit() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        pack_acl_entry(AclScope.ACCESS, AclType.USER, 0, 8)
    with pytest.raises(ValueError, match="does not fit"):
        pack_xattr_name(XAttrNamespace.USER, 2**24)


@given(st.lists(st.binary(max_size=6)))
def test_names_are_ordered_as_signed_bytes(names: list[bytes]) -> None:
    signed = sorted(names, key=lambda name: [byte - 256 if byte > 127 else byte for byte in name])
    assert sorted(names, key=name_key) == signed


def test_names_with_non_ascii_bytes_sort_first() -> None:
    assert sorted([b"a", "é".encode(), b"", b"ab"], key=name_key) == [b"", "é".encode(), b"a", b"ab"]
