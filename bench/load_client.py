"""One client process of `bench.load`: paced ClientProtocol calls from several threads, and the resulting names.

The process prints one JSON object with `calls` (acknowledged calls), `seconds`, `late` (calls that began more than a
second late) and `names`. `names` contains the path of every file that was acknowledged and not deleted again.
"""

from __future__ import annotations

import json
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from google.protobuf.message import Message

from hadoop_rpc.client import RpcClient
from hadoop_rpc.proto import client_namenode_pb2 as pb

_PROTOCOL = "org.apache.hadoop.hdfs.protocol.ClientProtocol"
_KEPT = 200
_LATE_SECONDS = 1.0
_USER = "hdfs"


@dataclass
class Load:
    """The calls of one thread; the number of `files` stays at about 200, so that the namespace does not grow."""

    rpc: RpcClient
    folder: str
    interval: float
    seconds: float
    files: list[str] = field(default_factory=list)
    calls: int = 0
    late: int = 0

    def run(self) -> Load:
        chance = random.Random(self.folder)
        self._call("mkdirs", pb.MkdirsRequestProto(src=self.folder, masked=_mode(0o755), createParent=True))
        started = time.monotonic()
        number = 0
        while (turn := started + self.calls * self.interval) < started + self.seconds:
            wait = turn - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            self.late += wait < -_LATE_SECONDS
            if time.monotonic() > started + 2 * self.seconds:
                break
            number += 1
            self._step(chance, number)
        return self

    def _step(self, chance: random.Random, number: int) -> None:
        choice = chance.random()
        if (len(self.files) < _KEPT and choice < 0.6) or not self.files:
            self._create(f"{self.folder}/file-{number:07d}")
            return
        path = self.files.pop(chance.randrange(len(self.files)))
        if choice < 0.75:
            self._call("delete", pb.DeleteRequestProto(src=path, recursive=False))
            return
        if choice < 0.9:
            target = f"{self.folder}/moved-{number:07d}"
            self._call("rename2", pb.Rename2RequestProto(src=path, dst=target, overwriteDest=False))
            self.files.append(target)
            return
        self._call("setPermission", pb.SetPermissionRequestProto(src=path, permission=_mode(0o600)))
        self.files.append(path)

    def _create(self, path: str) -> None:
        self._call(
            "create",
            pb.CreateRequestProto(
                src=path,
                masked=_mode(0o644),
                clientName=self.folder,
                createFlag=1,
                createParent=False,
                replication=1,
                blockSize=1 << 27,
            ),
        )
        self.files.append(path)
        self._call("complete", pb.CompleteRequestProto(src=path, clientName=self.folder))

    def _call(self, method: str, request: Message) -> None:
        # Only the arrival of the response matters.
        self.rpc.call(method, request, pb.EmptyProto, idempotent=False)
        self.calls += 1


def _mode(mode: int) -> pb.FsPermissionProto:
    return pb.FsPermissionProto(perm=mode)


def main() -> None:
    """Run one client process.

    The arguments are HOST PORT NAME THREADS RATE SECONDS; RATE is the number of calls per second of all threads.
    """
    host, port, name, threads, rate, seconds = sys.argv[1:]
    count = int(threads)
    started = time.monotonic()
    with RpcClient(host, int(port), _PROTOCOL, user=_USER) as rpc, ThreadPoolExecutor(count) as pool:
        shares = [Load(rpc, f"/load/{name}-{each}", count / float(rate), float(seconds)) for each in range(count)]
        done = list(pool.map(Load.run, shares))
    result = {
        "calls": sum(load.calls for load in done),
        "late": sum(load.late for load in done),
        "seconds": time.monotonic() - started,
        "names": sorted(path for load in done for path in load.files),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
