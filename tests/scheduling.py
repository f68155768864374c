"""Scheduler for pytest-xdist that assigns tests with a common expensive process to the same worker."""

from __future__ import annotations

from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling

_SPARK = "tests/pipeline"
# these modules start separate processes
_ALONE = {"test_cluster.py", "test_merge_daemon.py", "test_report_in_browser.py"}
_OF_A_MODULE = {
    "tests/checkpointer/leadership/test_lock_backend.py",
    "tests/console/test_console_in_browser.py",
    "tests/hadoop_common/test_zookeeper.py",
    "tests/interop/test_journal_node_states.py",
    "tests/journal/test_bookkeeper_kills.py",
    "tests/test_hints.py",
}
# each module has a separate Kerberos realm
_BY_MODULE = "tests/kerberos"
_SHARED = {
    "Hadoop's loader": {
        "tests/interop/test_crafted.py",
        "tests/interop/test_differential.py",
        "tests/interop/test_ignored_ops.py",
        "tests/interop/test_image_damages.py",
        "tests/interop/test_skipped_edits.py",
        "tests/interop/test_stub_clients.py",
    },
    "a NameNode": {
        "tests/interop/test_transfers.py",
        "tests/interop/test_edits_directories.py",
        "tests/interop/test_image_serve.py",
        "tests/interop/test_operations.py",
        "tests/interop/test_secondary_role.py",
    },
    "a ZooKeeper": {
        "tests/failover/cli/test_zkfc_commands.py",
        "tests/failover/test_election.py",
        "tests/failover/test_https.py",
        "tests/failover/test_pair.py",
    },
}
_SCOPES = {file: scope for scope, files in _SHARED.items() for file in files} | {file: file for file in _OF_A_MODULE}
_HADOOP = "tests/interop/test_hadoop_"


def scope_of(nodeid: str) -> str:
    """Return the scope of a test; one worker runs all tests of a scope, and the largest scope starts first."""
    file = nodeid.partition("::")[0]
    path = PurePosixPath(file)
    if path.parent == PurePosixPath(_SPARK):
        # one Spark session, whose JVM is warm after the first test
        return file if path.name in _ALONE else _SPARK
    if file.startswith(_HADOOP):
        return "Hadoop's loader"
    if path.parent == PurePosixPath(_BY_MODULE):
        return file
    return _SCOPES.get(file, nodeid)


class SharedJvms(LoadScopeScheduling):
    """A scheduler that distributes tests by `scope_of`."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)
