"""auth_to_local with Hadoop's own tool: the same rules and names give the same short names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hadoop_rpc.auth_to_local import NameRules
from hadoop_rpc.gssapi_library import default_realm
from tests.hadoop_rpc.name_rules import CASES, REALM
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import run_once
from tests.kerberos.kdc import Kdc

pytestmark = [pytest.mark.interop]
_TOOL = "org.apache.hadoop.security.HadoopKerberosName"


def hadoops(root: Path, rules: str, names: list[str]) -> dict[str, str | None]:
    """Return the tool's output for each name; the tool exits at the first refused name."""
    conf = HadoopConf(root, {"hadoop.security.auth_to_local": rules, "hadoop.security.authentication": "kerberos"})
    found: dict[str, str | None] = {}
    while left := [name for name in names if name not in found]:
        reported = dict(re.findall(r"^Name: (\S+) to (\S+)$", run_once(_TOOL, *left, conf=conf).out, re.MULTILINE))
        found.update({name: reported[name] for name in left if name in reported})
        refused = next((name for name in left if name not in reported), None)
        if refused is not None:
            found[refused] = None
    return found


def test_the_default_realm_is_that_of_the_system(kdc: Kdc) -> None:
    assert default_realm() == REALM


@pytest.mark.deep
@pytest.mark.parametrize(("rules", "names"), CASES)
def test_short_names_equal_those_of_hadoop(
    hadoop_here: None, kdc: Kdc, tmp_path: Path, rules: str, names: dict[str, str | None]
) -> None:
    assert hadoops(tmp_path, rules, list(names)) == names
    ours = NameRules(rules, REALM)
    for name, expected in names.items():
        if expected is not None:
            assert ours.short_name(name) == expected
