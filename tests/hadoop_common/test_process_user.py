from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from hadoop_common.cli.output import load_configuration
from hadoop_common.process_user import process_user


def test_the_user_has_a_name_or_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert process_user() == pwd.getpwuid(os.geteuid()).pw_name
    number = max(each.pw_uid for each in pwd.getpwall()) + 1
    monkeypatch.setattr(os, "geteuid", lambda: number)
    assert process_user() == str(number)


def test_java_properties_do_not_depend_on_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "someone-else")
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    value = "${java.io.tmpdir}/hadoop-${user.name}"
    text = f"<configuration><property><name>x</name><value>{value}</value></property></configuration>"
    (tmp_path / "core-site.xml").write_text(text)
    assert load_configuration(tmp_path).get("x") == f"/tmp/hadoop-{process_user()}"
