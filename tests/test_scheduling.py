"""Tests that share a JVM go to one worker, and the scheduled files exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import scheduling
from tests.scheduling import scope_of

_ROOT = Path(__file__).resolve().parents[1]


def test_spark_tests_share_one_worker() -> None:
    assert scope_of("tests/pipeline/test_lake.py::test_a[1]") == scope_of(
        "tests/pipeline/test_report.py::TestB::test_c"
    )


@pytest.mark.parametrize("name", sorted(scheduling._ALONE))
def test_modules_with_their_own_jvm_are_separate(name: str) -> None:
    assert (_ROOT / "tests" / "pipeline" / name).is_file()
    assert scope_of(f"tests/pipeline/{name}::test_a") != scope_of("tests/pipeline/test_lake.py::test_a")


@pytest.mark.parametrize("file", sorted(scheduling._SCOPES))
def test_a_module_with_its_own_servers_stays_together(file: str) -> None:
    assert (_ROOT / file).is_file()
    assert scope_of(f"{file}::test_a") == scope_of(f"{file}::test_b")


def test_modules_with_one_server_stay_together() -> None:
    assert scope_of("tests/interop/test_hadoop_home.py::test_a") == scope_of("tests/interop/test_crafted.py::test_b")
    assert scope_of("tests/kerberos/test_web.py::test_a") != scope_of("tests/kerberos/test_tickets.py::test_a")


def test_other_tests_are_distributed_individually() -> None:
    assert scope_of("tests/journal/test_x.py::test_a") != scope_of("tests/journal/test_x.py::test_b")
