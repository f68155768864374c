"""GitHub's workflows run the steps of `.ci/run` on all versions in pyproject.toml; actionlint accepts them."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
_REQUIRES = re.compile(r"CHECKPOINTER_TEST_REQUIRES[=:] ?\"?([^\"\n]+)")


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("go") is None, reason="go, which builds actionlint, is not installed")
def test_actionlint_accepts_the_workflows() -> None:
    ran = subprocess.run(["go", "run", ACTIONLINT, *WORKFLOWS], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"


def test_the_workflows_have_the_same_requirements_as_ci() -> None:
    required = {path.name: _REQUIRES.findall(path.read_text()) for path in (ROOT / ".ci" / "run", *WORKFLOWS)}
    assert len(WORKFLOWS) == 2
    assert required == dict.fromkeys(required, required["run"])


def test_every_checkout_fetches_release_tags() -> None:
    """Without tags, the upgrade test runs one version against itself, and no release's interface can be compared."""
    texts = [path.read_text() for path in WORKFLOWS]
    assert sum(text.count("actions/checkout@") for text in texts) == sum(text.count("fetch-depth: 0") for text in texts)


def test_the_oldest_tested_python_is_the_oldest_supported_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {version for path in WORKFLOWS for version in re.findall(r'"(3\.\d+)"', path.read_text())}
    assert f">={min(found, key=lambda each: int(each[2:]))}" == project["requires-python"]


def test_compiled_requirements_contain_their_command() -> None:
    """Renovate reads the command from the header of a compiled file."""
    folder = ROOT / "requirements"
    names = [path.stem for path in folder.glob("*.in")]
    lacking = [
        name
        for name in names
        if f" --output-file={name}.txt {name}.in\n" not in (folder / f"{name}.txt").read_text()[:300]
    ]
    assert lacking == [], "make lock"
