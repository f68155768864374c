"""Rules of hadoop.security.auth_to_local; `tests/kerberos` compares the same table with Hadoop's own tool."""

from __future__ import annotations

import pytest

from hadoop_rpc.auth_to_local import NameRules
from tests.hadoop_rpc.name_rules import CASES, REALM


@pytest.mark.parametrize(("rules", "names"), CASES)
def test_short_names_of_principals(rules: str, names: dict[str, str | None]) -> None:
    found = {}
    for name in names:
        try:
            found[name] = NameRules(rules, REALM).short_name(name)
        except ValueError:
            found[name] = None
    assert found == names


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("RULE:[1:$1", "Invalid rule: RULE:"),
        ("DEFAULT nonsense", "Invalid rule: +nonsense"),
        (r"RULE:[1:$1](\p{L}+)", "interpret differently"),
        (r"RULE:[1:$1]([a&&[b]])", "interpret differently"),
        ("RULE:[1:$1](a**)", "cannot be read"),
        ("RULE:[1:$1]s/a/$/", "in the middle"),
        ("RULE:[:$1]", "no number"),
    ],
)
def test_invalid_rules_are_refused(rules: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        NameRules(rules, REALM)


@pytest.mark.parametrize(
    ("rules", "name", "problem"),
    [
        ("RULE:[1:$1@$0]", "a@R", "Non-simple name a@R after auth_to_local rule RULE:"),
        ("DEFAULT", "a@OTHER", "No rules applied to a@OTHER"),
        ("DEFAULT", "a/b/c@R", "Malformed Kerberos name: a/b/c@R"),
        ("RULE:[1:$2]", "a@R", "out of the valid range"),
        ("RULE:[1:$]", "a@R", "without a number"),
        ("RULE:[1:$1]s/a/$1/", "a@R", "names a group"),
    ],
)
def test_reason_for_a_missing_short_name_is_reported(rules: str, name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        NameRules(rules, REALM).short_name(name)


def test_mit_mechanism_keeps_names_that_match_no_rule() -> None:
    rules = NameRules("RULE:[1:$1@$0](a@R)", REALM, "mit")
    assert (rules.short_name("a@R"), rules.short_name("b/h@OTHER")) == ("a@R", "b/h@OTHER")
    with pytest.raises(ValueError, match="not one of hadoop, mit"):
        NameRules("", REALM, "kerberos")
