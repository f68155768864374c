"""The targets by name, with their check, seeds and mutation."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.fuzz.codecs_target import check_codecs
from tests.fuzz.edits_target import check_edits
from tests.fuzz.http_target import check_http
from tests.fuzz.image_target import check_image
from tests.fuzz.key_stores_target import check_key_stores, key_store_seeds, mutate_key_store
from tests.fuzz.merge_target import check_merge
from tests.fuzz.mutate_edits import mutate_edits
from tests.fuzz.mutate_http import mutate_http
from tests.fuzz.mutate_image import mutate_image
from tests.fuzz.mutate_rpc import mutate_rpc
from tests.fuzz.rpc_target import check_rpc
from tests.fuzz.scratch import Scratch
from tests.fuzz.security_target import check_security
from tests.fuzz.seeds import codec_seeds, edits_seeds, http_seeds, image_seeds, rpc_seeds, security_seeds
from tests.fuzz.wire import Mutate

Check = Callable[[bytes], bool]


@dataclass(frozen=True)
class Target:
    """A target of fuzzing.

    Attributes:
        check: returns False for input that the product refuses correctly; raises an error for a fault of the product.
        seeds: inputs to start from.
        mutate: changes an input.
        corpus: folder in tests/fuzz/corpus with further inputs.
    """

    check: Callable[[bytes, Scratch], bool]
    seeds: Callable[[], Iterator[bytes]]
    mutate: Callable[[bytes, random.Random, Mutate], bytes]
    corpus: str

    @contextmanager
    def opened(self) -> Iterator[Check]:
        """Yield `check`, with a folder for its files if the check needs a folder."""
        with Scratch() as scratch:
            yield lambda data: self.check(data, scratch)


def _mutate_stream(data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Change any bytes after the byte that chooses the decoder; rarely, change that byte."""
    return mutate(data) if rng.random() < 0.05 else data[:1] + mutate(data[1:])


def _mutate_security(data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Mutate mostly inside frames."""
    return mutate_rpc(data, rng, mutate) if data[:1] in (b"\0", b"\1") else _mutate_stream(data, rng, mutate)


TARGETS = {
    "codecs": Target(lambda data, _: check_codecs(data), codec_seeds, _mutate_stream, "codecs"),
    "edits": Target(check_edits, edits_seeds, mutate_edits, "edits"),
    "http": Target(lambda data, _: check_http(data), http_seeds, mutate_http, "http"),
    "image": Target(check_image, image_seeds, mutate_image, "image"),
    "key-stores": Target(lambda data, _: check_key_stores(data), key_store_seeds, mutate_key_store, "key-stores"),
    "merge": Target(check_merge, image_seeds, mutate_image, "image"),
    "rpc": Target(lambda data, _: check_rpc(data), rpc_seeds, mutate_rpc, "rpc"),
    "security": Target(lambda data, _: check_security(data), security_seeds, _mutate_security, "security"),
}
