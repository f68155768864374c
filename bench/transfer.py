"""`python -m bench.transfer`: GET and PUT of an image on loopback, compared with `curl` and a minimal server.

All variants take turns in each round. A variant that stores the image computes its MD5 and syncs the file, so its lower
bound is `curl | tee FILE | md5sum` with a sync; without storing, it is `curl` with a loop over sendfile or recv. The
floor of a variant over TLS is the same variant without TLS.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from bench.phases import Sampler
from bench.scene import CONSOLE, machine, make_image
from bench.transfer_sides import NAMESPACE, SIDES, Server, serving
from image_format.md5_file import format_md5, md5_of_file, md5_path, read_md5_file
from tests.tls.certificates import authority, tls_folder

_INODES = 1000
_BLOCK = 1 << 20
# each variant and its floor
_WAYS = {
    "GET curl < plain server": None,
    "GET curl < ours": "GET curl < plain server",
    "GET curl | tee | md5sum < plain": None,
    "GET ours < ours, stored": "GET curl | tee | md5sum < plain",
    "PUT curl > plain server": None,
    "PUT ours > plain server": "PUT curl > plain server",
    "PUT curl > ours, stored": "GET curl | tee | md5sum < plain",
    "PUT ours > ours, stored": "GET curl | tee | md5sum < plain",
    "GET curl < ours, TLS": "GET curl < ours",
    "GET ours < ours, stored, TLS": "GET ours < ours, stored",
    "PUT ours > ours, stored, TLS": "PUT ours > ours, stored",
}


@dataclass(frozen=True)
class TransferRun:
    """One transfer: wall seconds, processor seconds of both sides; peak anonymous memory in bytes."""

    size: int
    seconds: float
    cpu: float
    server_memory: int
    client_memory: int

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.size / self.seconds


def make_large_image(folder: Path, size: int) -> tuple[Path, int]:
    """A valid image of `size` bytes, or a little more, and its .md5 file; returns its path and txid.

    The bytes between the sections and the summary are random: a transfer does not read them.
    """
    base = make_image(folder, _INODES, snapshots=False, seed=1)
    content = base.path.read_bytes()
    tail = int.from_bytes(content[-4:], "big") + 4
    block = os.urandom(_BLOCK)
    with base.path.open("r+b") as out:
        out.seek(len(content) - tail)
        while out.tell() + tail < size:
            out.write(block)
        out.write(content[-tail:])
    md5_path(base.path).write_bytes(format_md5(md5_of_file(base.path), base.path.name))
    return base.path, base.txid


def _measured(server: Server, size: int, command: list[str], *, shell: str | None = None) -> TransferRun:
    """Run a client; our clients measure themselves, since their start is not part of the transfer."""
    before, server_before, began = resource.getrusage(resource.RUSAGE_CHILDREN), server.cpu(), time.monotonic()
    given: list[str] = ["bash", "-o", "pipefail", "-ec", shell] if shell else command
    with subprocess.Popen(given, stdout=subprocess.PIPE, text=True) as client:
        samplers = [Sampler(server.process.pid), Sampler(client.pid)]
        for sampler in samplers:
            sampler.start()
        try:
            output, _ = client.communicate()
        finally:
            for sampler in samplers:
                sampler.stop()
    ended, after = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    if client.returncode:
        raise subprocess.CalledProcessError(client.returncode, given, output)
    took = {"seconds": ended - began, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}
    if command[:1] == SIDES[:1]:
        took = json.loads(output)
    cpu = took["cpu"] + server.cpu() - server_before
    return TransferRun(size, took["seconds"], cpu, *(sampler.peak(began, ended) for sampler in samplers))


class _Bench:
    """The variants, over two servers that run throughout."""

    def __init__(
        self, image: Path, txid: int, scratch: Path, ours: Server, plain: Server, secure: Server, tls: Path
    ) -> None:
        self._secure = secure
        self._tls = tls
        self._image = image
        self._txid = txid
        self._size = image.stat().st_size
        self._stored = scratch / "stored"
        self._fetched = scratch / "fetched"
        self._ours = ours
        self._plain = plain
        get = {"getimage": "1", "txid": str(txid), "storageInfo": NAMESPACE.colon_string()}
        put = {"txid": str(txid), "File-Length": str(self._size), "storageInfo": NAMESPACE.colon_string()}
        self._get_url = f"{ours.url}/imagetransfer?{urlencode(get)}"
        self._put_url = f"{ours.url}/imagetransfer?{urlencode(put)}"

    def round(self) -> dict[str, TransferRun]:
        """Every way once."""
        ways: dict[str, Callable[[], TransferRun]] = {
            "GET curl < plain server": lambda: self._curl_get(self._plain, self._plain.url),
            "GET curl < ours": lambda: self._curl_get(self._ours, self._get_url),
            "GET curl | tee | md5sum < plain": self._shell_get,
            "GET ours < ours, stored": lambda: self._download(self._ours),
            "PUT curl > plain server": lambda: self._curl_put(self._plain, self._plain.url),
            "PUT ours > plain server": lambda: self._upload(self._plain),
            "PUT curl > ours, stored": lambda: self._curl_put(self._ours, self._put_url),
            "PUT ours > ours, stored": lambda: self._upload(self._ours),
            "GET curl < ours, TLS": lambda: self._curl_get(
                self._secure, self._get_url.replace(self._ours.url, self._secure.url)
            ),
            "GET ours < ours, stored, TLS": lambda: self._download(self._secure),
            "PUT ours > ours, stored, TLS": lambda: self._upload(self._secure),
        }
        runs = {}
        for name in _WAYS:
            for folder in (self._stored, self._fetched):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
            os.sync()
            runs[name] = ways[name]()
        return runs

    def throttled(self, server: Server) -> TransferRun:
        """Read from a server with a bandwidth limit, using curl."""
        return self._curl_get(server, self._get_url.replace(self._ours.url, server.url))

    def _curl_get(self, server: Server, url: str) -> TransferRun:
        return _measured(
            server, self._size, ["curl", "-sSf", "--cacert", str(self._tls / "trusted.pem"), "-o", os.devnull, url]
        )

    def _curl_put(self, server: Server, url: str) -> TransferRun:
        digest = f"X-MD5-Digest: {read_md5_file(self._image).hex()}"
        command = ["curl", "-sSf", "-o", os.devnull, "-H", digest, "-T", str(self._image), url]
        return _measured(server, self._size, command)

    def _shell_get(self) -> TransferRun:
        target = self._fetched / "image"
        script = f"curl -sSf '{self._plain.url}' | tee '{target}' | md5sum; sync '{target}'"
        return _measured(self._plain, self._size, [], shell=script)

    def _download(self, server: Server) -> TransferRun:
        command = [*SIDES, "download", "--tls", str(self._tls), server.url, str(self._txid), str(self._fetched)]
        return _measured(server, self._size, command)

    def _upload(self, server: Server) -> TransferRun:
        command = [*SIDES, "upload", "--tls", str(self._tls), server.url, str(self._txid), str(self._image)]
        return _measured(server, self._size, command)


def summary(rounds: list[dict[str, TransferRun]]) -> dict[str, dict[str, float | None]]:
    """Return medians of the rounds; a ratio compares rates of one round, CPU is seconds per decimal GB."""
    found: dict[str, dict[str, float | None]] = {}
    for name, floor in _WAYS.items():
        runs = [each[name] for each in rounds]
        ratios = [each[name].rate / each[floor].rate for each in rounds] if floor else None
        found[name] = {
            "megabytesPerSecond": statistics.median(run.rate for run in runs) / 1e6,
            "ratio": statistics.median(ratios) if ratios else None,
            "cpuSecondsPerGigabyte": statistics.median(run.cpu / run.size for run in runs) * 1e9,
            "serverMemory": max(run.server_memory for run in runs),
            "clientMemory": max(run.client_memory for run in runs),
        }
    return found


def table(found: dict[str, dict[str, float | None]]) -> list[str]:
    """Lines of text."""
    lines = [f"{'':<34}{'MB/s':>8}{'x floor':>9}{'CPU s/GB':>10}{'server MB':>11}{'client MB':>11}"]
    for name, each in found.items():
        ratio = "" if each["ratio"] is None else f"{each['ratio']:.2f}"
        memory = "".join(f"{(each[side] or 0) / 1e6:>11.0f}" for side in ("serverMemory", "clientMemory"))
        lines.append(
            f"{name:<34}{each['megabytesPerSecond']:>8.0f}{ratio:>9}{each['cpuSecondsPerGigabyte']:>10.2f}{memory}"
        )
    return lines


def _measure(scratch: Path, size: int, rounds: int, limit: int) -> tuple[list[dict[str, TransferRun]], TransferRun]:
    image, txid = make_large_image(scratch, size)
    stored, tls = scratch / "stored", scratch / "tls"
    ca = authority()
    tls_folder(tls, ca.issue(), [ca])
    with ExitStack() as stack:
        ours = stack.enter_context(serving("serve", image.parent, stored, 0))
        plain = stack.enter_context(serving("plain", image))
        limited = stack.enter_context(serving("serve", image.parent, stored, limit))
        secure = stack.enter_context(serving("serve", image.parent, stored, 0, "--tls", tls))
        bench = _Bench(image, txid, scratch, ours, plain, secure, tls)
        bench.round()
        done = []
        for number in range(rounds):
            CONSOLE.log(f"round {number + 1} of {rounds}")
            done.append(bench.round())
        return done, bench.throttled(limited)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.transfer", description=__doc__)
    parser.add_argument("--size", type=float, default=1.0, help="of the image, GB")
    parser.add_argument("--rounds", type=int, default=3, help="after one that warms up")
    parser.add_argument("--limit", type=float, default=100.0, help="MB/s of the transfer that is throttled")
    parser.add_argument("--dir", type=Path, default=None, help="where to work (default: a temporary folder)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    if shutil.which("curl") is None:
        raise SystemExit("curl is not installed and is the floor of this comparison; on Debian: apt-get install curl")
    limit = int(arguments.limit * 1e6)
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="bench-") as scratch:
        rounds, throttled = _measure(Path(scratch), int(arguments.size * 1e9), arguments.rounds, limit)
    found = summary(rounds)
    if arguments.json:
        got = {"asked": arguments.limit, "got": throttled.rate / 1e6}
        print(json.dumps({"machine": machine(), "rounds": arguments.rounds, "ways": found, "throttle": got}))
        return
    print(f"{machine()}; {throttled.size / 1e9:.2f} GB, median of {arguments.rounds} rounds")
    print("\n".join(table(found)))
    print(f"throttled: {arguments.limit:,.1f} MB/s asked, {throttled.rate / 1e6:,.1f} got")


if __name__ == "__main__":
    main()
