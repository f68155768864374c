"""Files for operators: systemd units, and docs/operations.md and docs/runbook.md compared with the code."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from checkpointer.checks.registry import CHECKS
from checkpointer.checks.thresholds import MEASURED
from checkpointer.cli import _COMMANDS
from hadoop_common.transfer_counter import TransferCounter
from node_state.metrics import MetricsSnapshot, checkpointer_families
from node_state.state import NodeState
from site_config.catalogue import entry_of
from site_config.checkpoint_config import Role

ROOT = Path(__file__).parents[2]
PAGE, RUNBOOK = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("operations", "runbook"))
PACKAGES = (
    *("archive", "checkpointer", "engine", "failover", "hadoop_common", "hadoop_rpc"),
    *("image_format", "journal", "journal_node", "node_state", "servlets"),
)


def unit(name: str) -> configparser.RawConfigParser:
    found = configparser.RawConfigParser(strict=False)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(ROOT / "config" / "systemd" / name)
    return found


def test_systemd_unit_of_the_daemon() -> None:
    service = unit("checkpointer@.service")["Service"]
    assert service["Type"] == "notify"
    assert "--role %i " in service["ExecStart"]
    assert service["ExecStart"].split()[1] in _COMMANDS
    # the start does not wait for a compiler
    assert "ExecStartPre" not in service
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["RestartPreventExitStatus"].split() == ["5"]
    # compiled kernels need memory that is written and then executed
    assert "MemoryDenyWriteExecute" not in service
    # for sd_notify, HTTP and RPC
    assert set(service["RestrictAddressFamilies"].split()) == {"AF_UNIX", "AF_INET", "AF_INET6"}


@pytest.mark.parametrize("name", ["checkpointer@", "checkpointer-journalnode", "checkpointer-zkfc"])
def test_systemd_units_restart_without_a_limit(name: str) -> None:
    found = unit(f"{name}.service")
    assert (found["Unit"]["StartLimitIntervalSec"], found["Service"]["Restart"]) == ("0", "on-failure")


def test_every_check_role_and_command_is_documented() -> None:
    _, _, after = PAGE.partition("\n| Check | OK means |")
    table, _, text = after.partition("\n\n")
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [check.name for check in CHECKS]
    (measured,) = re.findall(r"sets thresholds\s+\(([^)]+)\)", text)
    assert set(re.findall(r"`(\w+)`", measured)) == MEASURED.keys()
    assert f"CHECKPOINTER OK - {len(CHECKS)} checks: " in PAGE
    for role in Role:
        assert f"`{role.value}`" in PAGE, role
    for command in ("config", "check", "fetch-image", "checkpoint"):
        assert f"checkpointer {command} " in PAGE, command


def test_every_metric_is_documented() -> None:
    empty = MetricsSnapshot(state=NodeState(role=""), now=0.0, version="1", started_at=0.0, counter=TransferCounter())
    for family in checkpointer_families(empty):
        name = family.name.removeprefix("hdfs_checkpointer").removeprefix("_") or "info"
        suffix = "_total" if family.type == "counter" else ""
        assert re.search(rf"`{name}{suffix}(\{{[a-z,]+\}})?`", PAGE), family.name


def test_every_documented_key_exists() -> None:
    foreign = {
        "dfs.namenode.safemode.threshold-pct",
        "dfs.namenode.state.context.enabled",
        "hadoop.http.authentication.type",
    }
    # keys of ssl-server.xml and ssl-client.xml
    foreign |= {
        "hadoop.security.credential.provider.path",
        "hadoop.security.credstore.java-keystore-provider.password-file",
    }
    named = (
        set(re.findall(r"`((?:dfs|ha|fs|hadoop|ipc|checkpointer)\.[A-Za-z.-]+)(?:=[^`]*)?`", PAGE + RUNBOOK)) - foreign
    )
    assert [name for name in sorted(named) if entry_of(name) is None] == []


def test_every_link_on_the_pages_has_a_target() -> None:
    for page in (PAGE, RUNBOOK):
        headings = {
            re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
            for line in page.splitlines()
            if line.startswith("#")
        }
        assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= headings
        assert all((ROOT / "docs" / link).exists() for link in re.findall(r"\]\(([a-z_]+\.md)\)", page))


def test_documented_commands_end_safe_mode_after_an_error() -> None:
    """`-safemode enter` fails while a NameNode does not answer, even if other NameNodes have entered safe mode."""
    for page in (ROOT / "docs").glob("*.md"):
        assert "-safemode enter &&" not in " ".join(page.read_text().split()), page


def test_every_message_quoted_as_a_symptom_exists() -> None:
    """Check quotes that begin with a lower-case letter, as our messages do; other quotes are messages of Hadoop.

    Numbers, ellipses and punctuation separate the compared parts. An alert rule is a row of a table in
    docs/operations.md.
    """
    sources = [path.read_text() for path in ROOT.glob("*/**/*.py") if path.relative_to(ROOT).parts[0] in PACKAGES]
    texts = re.sub(r"""["']\s*\n\s*f?["']""", "", "\n".join(sources))
    symptoms = re.findall(r"\*\*Symptom:\*\*.*?(?=\n\n)", RUNBOOK, re.DOTALL)
    quotes = [" ".join(quote.split()) for each in symptoms for quote in re.findall(r'"([a-z][^"]+)"', each)]
    parts = [part.strip() for quote in quotes for part in re.split(r"[…;,:]|-?\d+|OP_", quote)]
    assert len(quotes) > 10
    rules = re.findall(r"^\| ([a-z ]+) \|", PAGE, re.MULTILINE)
    assert [part for part in parts if part.count(" ") > 1 and part not in texts and part not in rules] == []
