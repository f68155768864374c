"""Inputs that fuzzing collected, and inputs that once caused a failure, pass the same checks with compiled kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.depth import sample
from tests.fuzz.targets import TARGETS
from tests.fuzz.without_atheris import absent_modules

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
SMALL = 300 * 1024
_SEEDS = 60
"""The quick tier tries fewer seeds, because most seeds are recorded images, which other tests read and merge."""

_WITH_KERNELS = {"codecs", "http", "image", "merge"}
"""Targets whose inputs reach kernels, which the fuzzer runs in their Python forms."""


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_corpus_gives_typed_errors_or_correct_results(name: str) -> None:
    files = sorted((CORPUS / TARGETS[name].corpus).iterdir())
    with TARGETS[name].opened() as check:
        verdicts = {path.name: check(path.read_bytes()) for path in files}
    assert set(verdicts.values()) == {True, False}


@pytest.mark.parameters(2)
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_seeds_give_typed_errors_or_correct_results(name: str) -> None:
    with TARGETS[name].opened() as check:
        verdicts = [check(seed) for seed in sample(list(TARGETS[name].seeds()), _SEEDS, name)]
    assert any(verdicts)


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < SMALL


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_fuzzer_runs_in_an_environment_with_only_its_libraries(name: str, tmp_path: Path) -> None:
    assert {"hypothesis", "pytest"} <= set(absent_modules())
    command = [sys.executable, "-m", "tests.fuzz.without_atheris", name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert bool(done.stdout.split()) == (name in _WITH_KERNELS)
