"""Which tests go to the same worker of pytest-xdist: those that share something that is dear to start."""

from __future__ import annotations

from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling

_SPARK = "tests/pipeline"
# they start what they need themselves
_ALONE = {"test_cluster.py", "test_merge_daemon.py", "test_report_in_browser.py"}
_OF_A_MODULE = {
    "tests/interop/test_cluster.py",
    "tests/interop/test_journal_node_states.py",
    "tests/kerberos/test_secure_cluster.py",
}
_HADOOP = "tests/interop/test_hadoop_"


def scope_of(nodeid: str) -> str:
    """Tests of the same scope are run by the same worker, one after the other; the largest scope begins."""
    file = nodeid.partition("::")[0]
    path = PurePosixPath(file)
    if path.parent == PurePosixPath(_SPARK):
        # one session, whose JVM is warm after the first of them
        return file if path.name in _ALONE else _SPARK
    if file.startswith(_HADOOP):
        return _HADOOP
    return file if file in _OF_A_MODULE else nodeid


class SharedJvms(LoadScopeScheduling):
    """Gives out the tests by `scope_of`."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)
