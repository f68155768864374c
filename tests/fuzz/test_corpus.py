"""Inputs that fuzzing collected, and inputs that once caused a failure, pass the same checks with compiled kernels."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.depth import sample
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
SMALL = 300 * 1024
_SEEDS = 60
"""The quick tier tries fewer seeds, because most seeds are recorded images, which other tests read and merge."""


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


def _pinned(*names: str) -> set[str]:
    texts = [(ROOT / "requirements" / f"{name}.txt").read_text() for name in names]
    return {name for text in texts for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}


def test_the_targets_need_only_the_libraries_of_the_fuzzer() -> None:
    absent = _pinned("dev", "spark", "build") - _pinned("runtime", "tls", "fuzz")
    modules = [
        module
        for module, owners in packages_distributions().items()
        if all(re.sub(r"[-_.]+", "-", owner).lower() in absent for owner in owners)
    ]
    assert {"hypothesis", "pytest"} <= set(modules)
    hidden = f"import sys; sys.modules.update(dict.fromkeys({modules})); import tests.fuzz.targets"
    subprocess.run([sys.executable, "-c", hidden], cwd=ROOT, check=True)
