"""Scheduling of pytest-xdist: tests that share an expensive process go to the same worker."""

from __future__ import annotations

from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling

_SPARK = "tests/pipeline"
# these start their own processes
_ALONE = {"test_cluster.py", "test_merge_daemon.py", "test_report_in_browser.py"}
_OF_A_MODULE = {
    "tests/interop/test_cluster.py",
    "tests/interop/test_journal_node_states.py",
    "tests/kerberos/test_secure_cluster.py",
    "tests/test_hints.py",
}
_HADOOP = "tests/interop/test_hadoop_"


def scope_of(nodeid: str) -> str:
    """Return the scope of a test; one worker runs a scope's tests in a row, and the largest scope starts first."""
    file = nodeid.partition("::")[0]
    path = PurePosixPath(file)
    if path.parent == PurePosixPath(_SPARK):
        # one session, whose JVM is warm after the first test
        return file if path.name in _ALONE else _SPARK
    if file.startswith(_HADOOP):
        return _HADOOP
    return file if file in _OF_A_MODULE else nodeid


class SharedJvms(LoadScopeScheduling):
    """A scheduler that distributes tests by `scope_of`."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)
