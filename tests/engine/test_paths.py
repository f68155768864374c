"""Paths of operations, compared with plain models of Hadoop's path handling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import NamespaceError
from engine.namespace.leases import LeasePaths, is_covered
from engine.namespace.op_paths import (
    check_new_name,
    is_plain,
    java_path,
    join_names,
    lies_below,
    name_for_rename,
    resolve_reserved,
    split_path,
)

pieces = st.sampled_from(
    ["/", "//", "a", "b.c", ".", "..", ".snapshot", ".reserved", "raw", "ü", "\U0001d49c", "\ud800", " "]
)
paths = st.lists(pieces, max_size=9).map("".join)
absolute = paths.map(lambda path: "/" + path)


def names_of_2_7(path: str) -> list[bytes]:
    """Split as StringUtils.split does, and return the UTF-8 of each part."""
    parts, part = [], ""
    for character in path:
        if character == "/":
            parts.append(part)
            part = ""
        else:
            part += character
    parts.append(part)
    while parts and not parts[-1]:
        parts.pop()
    return [name.encode("utf-8", "replace") for name in parts[1:]]


def names_of_3(path: str) -> list[bytes]:
    """Split as DFSUtilClient.bytes2byteArray does."""
    octets = path.encode("utf-8", "replace")
    found, start = [], None
    for at, octet in enumerate(octets):
        if octet == ord("/"):
            if start is not None:
                found.append(octets[start:at])
            start = None
        elif start is None:
            start = at
    return found if start is None else [*found, octets[start:]]


@given(absolute)
def test_path_components_match_each_release(path: str) -> None:
    assert split_path(path, hadoop3=False) == names_of_2_7(path)
    assert split_path(path, hadoop3=True) == names_of_3(path)


@given(paths.filter(lambda path: not path.startswith("/")), st.booleans())
def test_relative_path_is_refused(path: str, hadoop3: bool) -> None:
    assert not is_plain(path)
    with pytest.raises(NamespaceError, match="not absolute"):
        split_path(path, hadoop3=hadoop3)


@given(absolute)
def test_plain_path_equals_its_joined_components(path: str) -> None:
    names = split_path(path, hadoop3=True)
    spelled = path.encode("utf-8", "replace").decode()
    is_own = bool(names) and join_names(names) == spelled
    reserved = any(name.startswith(b".snapshot") for name in names)
    assert is_plain(path) == (is_own and not reserved)
    if is_plain(path):
        assert split_path(path, hadoop3=False) == names


@pytest.mark.parametrize(
    ("path", "hadoop2", "hadoop3"),
    [
        ("/a", "/a", "/a"),
        ("/a/", "/a", "/a"),
        ("/a//", "/a", "/a"),
        ("/a///", "/a/", "/a"),
        ("//a", "", ""),
        ("//a/b", "/b", "/b"),
        ("//", "/", "/"),
        ("/", "/", "/"),
        ("/a//b", "/a/b", "/a/b"),
        ("/a/.", "/a/", "/a/"),
        ("/a/..", "/", "/"),
        ("/..", "/..", "/.."),
        ("/../a/..", "/../", "/../"),
        ("/a/../..", "/..", "/.."),
        ("/a/./b/../c", "/a/c", "/a/c"),
        ("/a/..b/.c", "/a/..b/.c", "/a/..b/.c"),
        ("hdfs://host:1/a", "/a", "/a"),
        ("a/../b", "b", "b"),
    ],
)
def test_java_path_normalizes_as_each_release(path: str, hadoop2: str, hadoop3: str) -> None:
    """Results of `new Path(path).toUri().getPath()` in Hadoop 2.7.3 and 3.4.2."""
    assert java_path(path, hadoop3=False) == hadoop2
    assert java_path(path, hadoop3=True) == hadoop3
    assert name_for_rename(path) == hadoop2.rpartition("/")[2]


def test_empty_path_is_refused() -> None:
    with pytest.raises(NamespaceError, match="empty"):
        java_path("", hadoop3=True)


@pytest.mark.parametrize(
    ("path", "above", "below"),
    [("/a/b", "/a", True), ("/ab", "/a", False), ("/a/b", "/a/", False), ("/a//b", "/a/", True), ("/a", "/a", False)],
)
def test_lies_below_compares_path_strings(path: str, above: str, below: bool) -> None:
    assert lies_below(path, above) == below


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/.reserved/raw", []),
        ("/.reserved/raw/a/b", [b"a", b"b"]),
        ("/.reserved/raw/.reserved", [b".reserved", b"raw", b".reserved"]),
        ("/.reserved/raw/.reserved/a", [b".reserved", b"a"]),
        ("/.reserved/.inodes", [b".reserved", b".inodes"]),
        ("/.reserved/.inodes/16385", []),
        ("/.reserved/.inodes/20000", [b"x", b"y"]),
        ("/.reserved/.inodes/+20000/z", [b"x", b"y", b"z"]),
        ("/.reserved/.inodes/20000/..", [b"x"]),
        ("/.reserved/.inodes/16385/..", []),
        ("/.reserved", [b".reserved"]),
        ("/.reserved/other/a", [b".reserved", b"other", b"a"]),
        ("/a/.reserved/raw", [b"a", b".reserved", b"raw"]),
        ("/", []),
    ],
)
def test_reserved_inode_paths_are_resolved(path: str, found: list[bytes]) -> None:
    known = {16385: list[bytes](), 20000: [b"x", b"y"]}
    assert resolve_reserved(split_path(path, hadoop3=True), known.get) == found


@pytest.mark.parametrize("name", ["1", "x", "", "1_0", " 1", "9223372036854775808"])
def test_reserved_path_without_an_inode_id_is_refused(name: str) -> None:
    with pytest.raises(NamespaceError):
        resolve_reserved([b".reserved", b".inodes", name.encode()], lambda _: None)


def test_reserved_names_are_refused_for_new_inodes() -> None:
    check_new_name(b".reserved", in_root=False)
    check_new_name(b"..", in_root=True)
    for name, in_root in ((b".snapshot", False), (b".snapshot", True), (b".reserved", True)):
        with pytest.raises(NamespaceError, match="reserved"):
            check_new_name(name, in_root=in_root)


@pytest.mark.parametrize(
    ("path", "prefix", "covered"),
    [
        ("/a/b", "/a", True),
        ("/a", "/a", True),
        ("/ab", "/a", False),
        ("/a", "/a/", False),
        ("/a/", "/a", True),
        ("/a/b", "/a/", True),
        ("/a//b", "/a/", True),
    ],
)
def test_lease_paths_covered_by_a_prefix(path: str, prefix: str, covered: bool) -> None:
    assert is_covered(path, prefix) == covered


def test_lease_paths_are_renamed_as_strings() -> None:
    leases = LeasePaths()
    leases.add("/w/f/")
    leases.rename("/w", "/v/")
    assert list(leases) == ["/v//f/"]
    leases.rename("/v/", "/u")
    assert list(leases) == ["/u/f/"]
    leases.detach("/u/g", "/u/", "/t")
    assert list(leases) == ["/tg", "/u/f/"]
    leases.remove_below("/u/f")
    leases.remove_below("/tg")
    assert not leases
