"""Hadoop's shell receives the same lines from a standby that serves its namespace as from the active NameNode."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from namenode_stub.ports import free_port
from tests.interop.clients import EC_ADMIN, ClientJvm, CommandResult, HdfsClient
from tests.interop.cluster import HaPair
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.interop.hadoop_process import wait_until
from tests.interop.our_daemon import STANDBY_SETTINGS, OurDaemon
from tests.interop.read_clients import READ_CLIENTS, Answer, go_client
from tests.interop.shell_scripts import ASKED, MADE, lines

pytestmark = [pytest.mark.interop, pytest.mark.deep]

MORE = """
-mkdir -p /s/a/b /s/c
-touchz /s/a/f /s/a/b/g /s/c/h
-appendToFile /etc/hostname /s/c/h
-createSnapshot /s s1
-rm -r /s/a/b
-mv /s/a/f /s/c/moved
-mv /s/c/h /t/away
-chmod 700 /s/c
-touchz /s/new
-createSnapshot /s s2
-rm /s/new
-mkdir -p /s/shut/below
-touchz /s/shut/f
-createSnapshot /s s3
-chmod 700 /s/shut
-createSnapshot /s s4
-rm -r /s/shut
-mkdir /private
-touchz /private/f
-chmod 700 /private
"""
ASKED_TOO = """
-ls -R /s
-ls /s/.snapshot
-ls -R /s/.snapshot/s1 /s/.snapshot/s2 /s/.snapshot/s4
-ls -d /s/.snapshot/s1 /s/.snapshot/s1/a
-ls /s/.snapshot/s1/a/none
-ls /s/.snapshot/none/a
-stat %n:%b:%r:%u:%g:%y:%F /s/.snapshot/s1/a/f
-test -d /s/.snapshot/s1/a/b
-find /s/.snapshot/s1 -name *g
-getfacl -R /s/.snapshot/s1
-getfattr -R -d /s/.snapshot/s1
-count -q -v /s
-count / /s/c
-count -u /s
-du -s /s
-du -s -x /s
-du /s
-count /t
-count -q -v /t
-du -s -x /t
-getfacl -R /s
-ls /s/.snapshot/none
-ls /t/z/below
"""
# in a snapshot, the sums of Hadoop 2 partly count the current state
SUMMED_IN_SNAPSHOTS = """
-count -q -v /s/.snapshot/s1 /s/.snapshot/s1/a
-count /s/.snapshot/s4
-du -s /s/.snapshot/s2
"""
REFUSED = """
-ls /private
-ls /private/f
-count /
-count /private
-test -e /private/f
-getfacl -R /
-getfattr -d /private
-stat %n /private/none
-ls -R /t
-ls /s/.snapshot/s4/shut
-ls /s/.snapshot/s4/shut/f
-ls /s/.snapshot/s3/shut
-stat %n /s/.snapshot/s4/shut/none
"""


NAMESPACES = 50
OBSERVER_READS = "org.apache.hadoop.hdfs.server.namenode.ha.ObserverReadProxyProvider"


@dataclass(frozen=True)
class Clients:
    """Clients of our standby by protocol, of the active NameNode, and of both in this order."""

    served: dict[str, HdfsClient]
    active: HdfsClient
    failover: HdfsClient
    served_address: str
    active_address: str


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory, client_jvm: ClientJvm) -> Iterator[Clients]:
    root = tmp_path_factory.mktemp("pair")
    settings = {
        **STANDBY_SETTINGS,
        "checkpointer.namespace.serve": "true",
        # an observer needs the state ids of the active NameNode, and reads the open segment
        "dfs.namenode.state.context.enabled": "true",
        "dfs.ha.tail-edits.in-progress": "true",
    }
    with HaPair(root, settings) as pair:
        active = client_jvm.of(pair.client_conf)
        pair.nn1.start()
        pair.activate(active, "nn1")
        for words in lines(MADE):
            active.shell(*words).checked()
        active.shell("-mkdir", "/s").checked()
        active.admin("-allowSnapshot", "/s").checked()
        for words in lines(MORE):
            if words[0] != "-appendToFile":
                active.shell(*words).checked()
        active.admin("-setQuota", "100", "/t/a").checked()
        active.admin("-setSpaceQuota", "1g", "/t/a").checked()
        active.shell("-mkdir", "/done").checked()
        rpc = f"127.0.0.1:{free_port()}"
        # the second address belongs to the NameNode that the daemon replaces
        own = pair.nn2.conf["dfs.namenode.rpc-address.ns1.nn2"]
        pair.nn2.conf.update({"checkpointer.namespace.rpc-address": f"{rpc},{own}"})
        with OurDaemon.standby(pair.nn2.conf, "dfs.namenode.http-address.ns1.nn2") as daemon:
            names = {"webhdfs": f"webhdfs://{urlsplit(daemon.url).netloc}", "hdfs": f"hdfs://{rpc}"}
            served = {way: client_jvm.of(HadoopConf(root / way, {"fs.defaultFS": each})) for way, each in names.items()}
            if SERVER.is_3:
                reading = {**pair.client_conf.properties, "dfs.client.failover.proxy.provider.ns1": OBSERVER_READS}
                served["observer"] = client_jvm.of(client_conf(root / "observer", reading))
            wait_until(lambda: served["hdfs"].shell("-test", "-d", "/done").code == 0, "the standby has all edits")
            backwards = {**pair.client_conf.properties, "dfs.ha.namenodes.ns1": "nn2,nn1"}
            failover = client_jvm.of(client_conf(root / "failover", backwards))
            theirs = pair.nn1.conf["dfs.namenode.rpc-address.ns1.nn1"]
            yield Clients(served, active, failover, rpc, theirs)


@pytest.fixture(scope="module")
def random_namespaces(clients: Clients) -> range:
    """Make the random namespaces /r0, /r1, ..., and return their numbers."""
    for number in range(NAMESPACES):
        make_random(clients.active, number)
    clients.active.shell("-mkdir", "/random").checked()
    wait_until(lambda: clients.served["hdfs"].shell("-test", "-d", "/random").code == 0, "the standby has all edits")
    return range(NAMESPACES)


def make_random(active: HdfsClient, number: int) -> None:
    """Make the random namespace /rNUMBER, with snapshots, ACLs, quotas and, in Hadoop 3, erasure coding."""
    top, chance = f"/r{number}", random.Random(number)
    below = f"{top}/t0"
    active.shell("-mkdir", "-p", f"{top}/coded/d").checked()
    active.load(60, seed=number, path=top, threads=1)
    if SERVER.is_3:
        # no erasure-coded files in snapshots, because Hadoop's own NameNodes fail to delete some of them
        for path in (f"{top}/coded", max(active.namespace(below)) if number % 2 else f"{top}/coded/d"):
            active.tool(EC_ADMIN, "-setPolicy", "-path", path, "-policy", "RS-6-3-1024k")
    active.shell("-touchz", f"{top}/coded/f", f"{top}/coded/d/g").checked()
    for path in chance.sample(sorted(active.namespace(below)), 3):
        active.shell("-setfacl", "-m", f"user:erin:{chance.choice(['---', 'r-x', 'rwx'])}", path)
        active.shell("-chmod", chance.choice(["700", "751", "1777"]), path)
    active.admin("-setQuota", "10000", top).checked()
    active.admin("-setSpaceQuota", "1t", below).checked()
    active.shell("-createSnapshot", below, "last").checked()
    for path in chance.sample(sorted(active.namespace(below)), 8):
        if path != below and ".snapshot" not in path:
            target = f"{below}/moved{chance.randrange(9)}"
            # some paths no longer exist
            active.shell(*(["-rm", "-r", path] if chance.random() < 0.5 else ["-mv", path, target]))


def client_conf(root: Path, properties: Mapping[str, str]) -> HadoopConf:
    found = HadoopConf(root, properties)
    found.properties.pop("dfs.namenode.rpc-address")
    found.write()
    return found


@pytest.mark.parametrize("name", READ_CLIENTS)
def test_clients_receive_the_same_output_on_random_namespaces(
    clients: Clients, random_namespaces: range, name: str, tmp_path: Path
) -> None:
    client, differing = READ_CLIENTS[name], []
    with ExitStack() as stack:
        ask = client.start(stack, tmp_path)
        for number in random_namespaces:
            for words, user in itertools.product(client.commands(f"/r{number}"), ("", "erin")):
                addresses = clients.served_address, clients.active_address
                ours, theirs = (portable(*ask(each, user, words)) for each in addresses)
                if ours != theirs:
                    differing.append((words, user, ours, theirs))
    assert not differing, differing[:3]


def test_renewing_a_lease_does_not_interrupt_reads(clients: Clients, tmp_path: Path) -> None:
    """The Go client renews its lease each second, and avoids a node for 5 s after a refusal."""
    ask, ours, active = go_client(tmp_path), clients.served_address, clients.active_address
    theirs = ask(active, "", ("0s", "/t"))
    for addresses in (ours, f"{ours},{active}", f"{active},{ours}"):
        assert (addresses, *ask(addresses, "", ("2500ms", "/t"))) == (addresses, *theirs)


def shown(result: CommandResult) -> Answer:
    """Return a client's output; see `portable`."""
    return portable(result.code, result.out, result.err)


def portable(code: int, out: str, err: str) -> Answer:
    """Return a response without details of Hadoop 2.

    Hadoop 2 takes the times of snapshots from its clock during replay. If several directories are refused, the error of
    a count names a different directory than in Hadoop 3.
    """
    if SERVER.is_3:
        return code, out, err
    details = r"\d{4}-\d\d-\d\d \d\d:\d\d|(?<=modification_time=)\d+|(?<=inode=).*"
    return code, re.sub(details, "-", out), re.sub(details, "-", err)


if SERVER.is_3:
    ASKED_TOO += SUMMED_IN_SNAPSHOTS
    REFUSED += SUMMED_IN_SNAPSHOTS


@pytest.mark.parametrize("words", [*lines(ASKED), *lines(ASKED_TOO)], ids=" ".join)
def test_responses_equal_those_of_the_active_namenode(clients: Clients, words: list[str]) -> None:
    theirs = clients.active.shell(*words)
    for way, client in clients.served.items():
        assert (way, *shown(client.shell(*words))) == (way, *shown(theirs))


@pytest.mark.parametrize("words", lines(REFUSED), ids=" ".join)
def test_refusals_equal_those_of_the_active_namenode(clients: Clients, words: list[str]) -> None:
    theirs = clients.active.as_user("erin").shell(*words)
    for way, client in clients.served.items():
        assert (way, *shown(client.as_user("erin").shell(*words))) == (way, *shown(theirs))


def test_failover_clients_use_the_active_namenode(clients: Clients) -> None:
    """A client with failover that asks our daemon first receives the newest state, and can change it."""
    clients.active.shell("-mkdir", "/newest").checked()
    clients.failover.shell("-test", "-d", "/newest").checked()
    clients.failover.shell("-mkdir", "/newest/below").checked()


def test_changes_are_refused(clients: Clients) -> None:
    assert "not supported in state standby" in clients.served["hdfs"].shell("-mkdir", "/x").err
