"""`python -m tests.fuzz TARGET`: search for inputs that break a target, guided by coverage (needs atheris)."""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import atheris  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

CORPUS = Path(__file__).resolve().parent / "corpus"
FOUND = Path(".fuzz")
_PACKAGES = [
    "checkpointer",
    "hadoop_common",
    "hadoop_rpc",
    "image_format",
    "image_tools",
    "journal",
    "servlets",
    "site_config",
]
_LIBFUZZER = ("-max_len=16384", "-timeout=10", "-rss_limit_mb=3072", "-print_final_stats=1")


def main() -> None:
    """Run libFuzzer on one target until the first finding, which it reports with a traceback and the input's file."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        epilog="libFuzzer receives further options, such as -max_len=4096.",
    )
    targets = ["codecs", "edits", "http", "image", "key-stores", "merge", "rpc", "security"]
    parser.add_argument("target", choices=targets)
    parser.add_argument("--seconds", type=int, default=60, help="how long to search (default %(default)s)")
    parser.add_argument(
        "--minimize",
        action="store_true",
        help="instead of searching, add inputs that reach new code to tests/fuzz/corpus",
    )
    args, more = parser.parse_known_args()
    _run_kernels_in_python()
    with atheris.instrument_imports(include=_PACKAGES, enable_loader_override=False):
        from tests.fuzz.targets import TARGETS

    target = TARGETS[args.target]
    found, findings, corpus = FOUND / args.target, FOUND / f"{args.target}-findings", CORPUS / target.corpus
    for folder in (found, findings, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (found / hashlib.sha1(seed, usedforsecurity=False).hexdigest()).write_bytes(seed)
    if any("merge_inner" in option for option in more):
        # libFuzzer restarts itself after each input that ends the process
        what = []
    elif args.minimize:
        what = ["-set_cover_merge=1", "-use_counters=0", str(corpus), str(found)]
    else:
        what = [f"-max_total_time={args.seconds}", "-use_value_profile=1", str(found), str(corpus)]
    command = f"{sys.executable} -m tests.fuzz {args.target}"
    options = [command, *_LIBFUZZER, f"-artifact_prefix={findings}/", *more, *what]
    # targets log thousands of refusals per second
    logging.disable(logging.CRITICAL)
    with target.opened() as check:
        atheris.Setup(options, lambda data: check(data) and None, custom_mutator=_mutator(target))
        atheris.Fuzz()


def _run_kernels_in_python() -> None:
    """Make kernels run in their Python forms, so that coverage includes their lines and an index beyond an array raises
    an error.
    """
    from image_format.compiling import plain
    from image_format.compiling.mode import VARIABLE, Mode

    os.environ[VARIABLE] = Mode.PLAIN.value
    form_of = plain.plain_form
    # before the import of the kernels
    plain.plain_form = lambda function, called: atheris.instrument_func(form_of(function, called))


def _mutator(target: Target) -> Callable[[bytes, int, int], bytes]:
    def custom(data: bytes, max_size: int, seed: int) -> bytes:
        changed = target.mutate(data, random.Random(seed), lambda part: bytes(atheris.Mutate(part, len(part) + 64)))
        return changed[:max_size]

    return custom


if __name__ == "__main__":
    main()
