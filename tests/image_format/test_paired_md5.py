"""Two MD5 in lockstep are what the library says of each, however the stream is cut."""

from __future__ import annotations

import hashlib
import itertools
import logging
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.digests import paired_md5
from image_format.digests.paired_md5 import PairedMd5, pairs_are_quick

pytestmark = pytest.mark.skipif(not pairs_are_quick(), reason="this processor has no AVX-512VL")

contents = st.binary(max_size=400)


@pytest.fixture
def asked_anew() -> Iterator[None]:
    pairs_are_quick.cache_clear()
    yield
    pairs_are_quick.cache_clear()


def md5(data: bytes) -> bytes:
    return hashlib.md5(data).digest()


@given(st.lists(contents, max_size=8), contents, st.booleans())
def test_both_are_what_the_library_says(parts: list[bytes], beside: bytes, early: bool) -> None:
    paired = PairedMd5(memoryview(beside))
    if early:
        assert paired.digest_beside() == md5(beside)
    for number, part in enumerate(parts, 1):
        paired.update(part)
        assert paired.digest() == md5(b"".join(parts[:number]))
    assert paired.digest() == md5(b"".join(parts))
    assert paired.digest_beside() == paired.digest_beside() == md5(beside)


@pytest.mark.parametrize("size", [*range(54, 66), *range(118, 130)])
def test_every_padding(size: int) -> None:
    data, other = bytes(range(size)), bytes(reversed(range(200 - size)))
    paired = PairedMd5(memoryview(other))
    paired.update(data)
    assert (paired.digest(), paired.digest_beside()) == (md5(data), md5(other))


@pytest.mark.parametrize(("size", "beside"), [(5 << 20, 3 << 20), (3 << 20, 9 << 20)])
def test_large_streams_and_any_kind_of_buffer(size: int, beside: int) -> None:
    random = np.random.default_rng(7)
    data, other = random.bytes(size + 1), random.bytes(beside + 63)
    paired = PairedMd5(memoryview(other))
    cuts = [0, 1, 70, 1 << 20, (1 << 20) + 1, size // 2, size + 1]
    for (start, end), kind in zip(itertools.pairwise(cuts), itertools.cycle([bytes, bytearray, memoryview])):
        paired.update(kind(data[start:end]))
    assert (paired.digest(), paired.digest_beside()) == (md5(data), md5(other))


def test_a_thread_may_ask_for_the_other_digest_meanwhile() -> None:
    data = np.random.default_rng(8).bytes(8 << 20)
    paired = PairedMd5(memoryview(data))
    begun, found = threading.Event(), []

    def ask() -> None:
        begun.wait()
        found.append(paired.digest_beside())

    thread = threading.Thread(target=ask)
    thread.start()
    for start in range(0, len(data), 1 << 18):
        paired.update(data[start : start + (1 << 18)])
        begun.set()
    thread.join()
    assert [paired.digest(), *found] == [md5(data)] * 2


def test_a_kernel_that_is_wrong_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, asked_anew: None
) -> None:
    lanes, start = paired_md5._kernel()
    monkeypatch.setattr(paired_md5, "_kernel", lambda: (lanes, start + np.uint32(1)))
    with caplog.at_level(logging.ERROR):
        assert not pairs_are_quick()
    assert "compiled MD5 is wrong" in caplog.text


def test_a_kernel_that_cannot_be_compiled_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, asked_anew: None
) -> None:
    monkeypatch.setattr(paired_md5, "_agrees", lambda: 1 // 0)
    assert not pairs_are_quick()
    assert "cannot be compiled" in caplog.text


@pytest.mark.parametrize(
    ("name", "features", "quick"), [("generic", None, False), ("x", "+avx2", False), ("x", "+avx512vl", True)]
)
def test_a_processor_that_the_compiler_is_told(
    monkeypatch: pytest.MonkeyPatch, asked_anew: None, name: str, features: str | None, quick: bool
) -> None:
    monkeypatch.setattr("numba.config.CPU_NAME", name)
    monkeypatch.setattr("numba.config.CPU_FEATURES", features)
    assert paired_md5._has_vectors() == quick


@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
def test_other_processors_use_the_library(monkeypatch: pytest.MonkeyPatch, machine: str, asked_anew: None) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: {"avx2": True})
    assert not pairs_are_quick()
