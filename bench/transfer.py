"""`python -m bench.transfer`: GET and PUT of an image on loopback, compared with `curl`, nginx and a minimal server.

All variants take turns in each round. A variant that stores the image computes its MD5 and syncs the file. The lower
bound of such a variant is `curl | tee FILE | md5sum` with a sync. For other variants, the lower bound is `curl` with a
loop over sendfile or recv. The floor of a variant over TLS is the same variant without TLS. One column shows the ratio
to nginx, if nginx serves the same file. The CPU seconds of each end limit the rate of one connection.
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
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from bench.memory import Sampler
from bench.nginx import MISSING, find_nginx, nginx_serving
from bench.scene import CONSOLE, machine, make_image
from bench.transfer_sides import NAMESPACE, SIDES, Server, serving
from image_format.md5_file import md5_of_file, read_md5_file, write_md5_file
from tests.tls.certificates import authority, tls_folder

_INODES = 1000
_BLOCK = 1 << 20
_KERNEL_TLS = Path("/proc/net/tls_stat")
_RECEIVERS = 8
# the variants, each with its floor
_WAYS = {
    "GET curl < plain server": None,
    "GET curl < nginx": "GET curl < plain server",
    "GET curl < ours": "GET curl < plain server",
    "GET curl < nginx, TLS": "GET curl < nginx",
    "GET curl < ours, TLS": "GET curl < ours",
    "GET 8 curl < nginx": None,
    "GET 8 curl < ours": None,
    "GET 8 curl < nginx, TLS": "GET 8 curl < nginx",
    "GET 8 curl < ours, TLS": "GET 8 curl < ours",
    "GET curl | tee | md5sum < plain": None,
    "GET ours < ours, stored": "GET curl | tee | md5sum < plain",
    "PUT curl > plain server": None,
    "PUT ours > plain server": "PUT curl > plain server",
    "PUT curl > ours, stored": "GET curl | tee | md5sum < plain",
    "PUT ours > ours, stored": "GET curl | tee | md5sum < plain",
    "GET ours < ours, stored, TLS": "GET ours < ours, stored",
    "PUT ours > ours, stored, TLS": "PUT ours > ours, stored",
}
_Row = dict[str, float | None]


@dataclass(frozen=True)
class TransferRun:
    """One or more transfers: bytes, wall seconds, CPU seconds of each side, and peak anonymous memory in bytes."""

    size: int
    seconds: float
    server_cpu: float
    client_cpu: float
    server_memory: int
    client_memory: int

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.size / self.seconds


def make_large_image(folder: Path, size: int) -> tuple[Path, int]:
    """Write a valid image of `size` bytes, or a little more, and its .md5 file; return its path and txid.

    The bytes between the sections and the summary are random, because a transfer does not interpret them.
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
    write_md5_file(base.path, md5_of_file(base.path))
    return base.path, base.txid


def _measured(server: Server, size: int, command: list[str], *, shell: str | None = None) -> TransferRun:
    """Run a client; our clients measure the time themselves, since their start is not part of the transfer."""
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
    memory = (sampler.peak(began, ended) for sampler in samplers)
    return TransferRun(size, took["seconds"], server.cpu() - server_before, took["cpu"], *memory)


@dataclass(frozen=True)
class _Servers:
    """Servers that run during the whole benchmark, among them nginx without and with TLS, if it is installed."""

    ours: Server
    secure: Server
    plain: Server
    nginx: tuple[Server, Server] | None


class _Bench:
    """The variants of the benchmark, on servers that run throughout."""

    def __init__(self, image: Path, txid: int, scratch: Path, servers: _Servers, tls: Path) -> None:
        self._servers = servers
        self._tls = tls
        self._image = image
        self._txid = txid
        self._size = image.stat().st_size
        self._stored = scratch / "stored"
        self._fetched = scratch / "fetched"
        ours = servers.ours.url
        get = {"getimage": "1", "txid": str(txid), "storageInfo": NAMESPACE.colon_string()}
        put = {"txid": str(txid), "File-Length": str(self._size), "storageInfo": NAMESPACE.colon_string()}
        self._get_path = f"/imagetransfer?{urlencode(get)}"
        self._put_url = f"{ours}/imagetransfer?{urlencode(put)}"

    def round(self) -> dict[str, TransferRun]:
        """Run every variant once."""
        ours, secure, plain = self._servers.ours, self._servers.secure, self._servers.plain
        ways: dict[str, Callable[[], TransferRun]] = {
            "GET curl < plain server": lambda: self._curl_get(plain, plain.url),
            "GET curl | tee | md5sum < plain": self._shell_get,
            "GET ours < ours, stored": lambda: self._download(ours),
            "PUT curl > plain server": lambda: self._curl_put(plain, plain.url),
            "PUT ours > plain server": lambda: self._upload(plain),
            "PUT curl > ours, stored": lambda: self._curl_put(ours, self._put_url),
            "PUT ours > ours, stored": lambda: self._upload(ours),
            "GET ours < ours, stored, TLS": lambda: self._download(secure),
            "PUT ours > ours, stored, TLS": lambda: self._upload(secure),
        }
        served = {"ours": (ours, secure, self._get_path)}
        if self._servers.nginx is not None:
            served["nginx"] = (*self._servers.nginx, f"/{self._image.name}")
        for name, (without, with_tls, path) in served.items():
            for server, suffix in ((without, ""), (with_tls, ", TLS")):
                url = server.url + path
                ways[f"GET curl < {name}{suffix}"] = partial(self._curl_get, server, url)
                ways[f"GET {_RECEIVERS} curl < {name}{suffix}"] = partial(self._curl_get, server, url, _RECEIVERS)
        runs = {}
        for name in filter(ways.__contains__, _WAYS):
            for folder in (self._stored, self._fetched):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
            os.sync()
            runs[name] = ways[name]()
        return runs

    def throttled(self, server: Server) -> TransferRun:
        """Read from a server with a bandwidth limit, using curl."""
        return self._curl_get(server, server.url + self._get_path)

    def _curl_get(self, server: Server, url: str, receivers: int = 1) -> TransferRun:
        given = ["curl", "-sSf", "--cacert", str(self._tls / "trusted.pem"), "-o", os.devnull, url]
        if receivers > 1:
            given = ["sh", "-c", f'seq {receivers} | xargs -P {receivers} -I@@ "$@"', "sh", *given]
        return _measured(server, receivers * self._size, given)

    def _curl_put(self, server: Server, url: str) -> TransferRun:
        digest = f"X-MD5-Digest: {read_md5_file(self._image).hex()}"
        command = ["curl", "-sSf", "-o", os.devnull, "-H", digest, "-T", str(self._image), url]
        return _measured(server, self._size, command)

    def _shell_get(self) -> TransferRun:
        target = self._fetched / "image"
        script = f"curl -sSf '{self._servers.plain.url}' | tee '{target}' | md5sum; sync '{target}'"
        return _measured(self._servers.plain, self._size, [], shell=script)

    def _download(self, server: Server) -> TransferRun:
        command = [*SIDES, "download", "--tls", str(self._tls), server.url, str(self._txid), str(self._fetched)]
        return _measured(server, self._size, command)

    def _upload(self, server: Server) -> TransferRun:
        command = [*SIDES, "upload", "--tls", str(self._tls), server.url, str(self._txid), str(self._image)]
        return _measured(server, self._size, command)


def summary(rounds: list[dict[str, TransferRun]]) -> dict[str, _Row]:
    """Return medians of the rounds; a ratio compares rates of one round, and CPU is in seconds per decimal GB."""

    def ratio(name: str, other: str | None) -> float | None:
        if other is None or other == name or other not in rounds[0]:
            return None
        return statistics.median(each[name].rate / each[other].rate for each in rounds)

    found: dict[str, _Row] = {}
    for name in rounds[0]:
        runs = [each[name] for each in rounds]
        found[name] = {
            "megabytesPerSecond": statistics.median(run.rate for run in runs) / 1e6,
            "ratio": ratio(name, _WAYS[name]),
            "ratioToNginx": ratio(name, name.replace("ours", "nginx")),
            "serverSecondsPerGigabyte": statistics.median(run.server_cpu / run.size for run in runs) * 1e9,
            "clientSecondsPerGigabyte": statistics.median(run.client_cpu / run.size for run in runs) * 1e9,
            "serverMemory": max(run.server_memory for run in runs),
            "clientMemory": max(run.client_memory for run in runs),
        }
    return found


def table(found: dict[str, _Row]) -> list[str]:
    """Return the results as lines of text; the seconds are CPU seconds."""
    heads = ("MB/s", "x floor", "x nginx", "server s/GB", "client s/GB", "server MB", "client MB")
    lines = [f"{'':<34}" + "".join(f"{head:>12}" for head in heads)]
    for name, each in found.items():
        ratios = ["" if (ratio := each[key]) is None else f"{ratio:.2f}" for key in ("ratio", "ratioToNginx")]
        seconds = [f"{each[f'{side}SecondsPerGigabyte']:.2f}" for side in ("server", "client")]
        memory = [f"{(each[side] or 0) / 1e6:.0f}" for side in ("serverMemory", "clientMemory")]
        cells = [f"{each['megabytesPerSecond']:.0f}", *ratios, *seconds, *memory]
        lines.append(f"{name:<34}" + "".join(f"{cell:>12}" for cell in cells))
    return lines


def _measure(scratch: Path, size: int, rounds: int, limit: int) -> tuple[list[dict[str, TransferRun]], TransferRun]:
    image, txid = make_large_image(scratch, size)
    stored, tls = scratch / "stored", scratch / "tls"
    ca = authority()
    own = ca.issue()
    tls_folder(tls, own, [ca])
    (tls / "own.pem").write_bytes(own.pem())
    with ExitStack() as stack:
        ours = stack.enter_context(serving("serve", image.parent, stored, 0))
        secure = stack.enter_context(serving("serve", image.parent, stored, 0, "--tls", tls))
        plain = stack.enter_context(serving("plain", image))
        limited = stack.enter_context(serving("serve", image.parent, stored, limit))
        program, nginx = find_nginx(), None
        if program is not None:
            nginx = stack.enter_context(nginx_serving(program, scratch / "nginx", image.parent, tls / "own.pem"))
        bench = _Bench(image, txid, scratch, _Servers(ours, secure, plain, nginx), tls)
        bench.round()
        done = []
        for number in range(rounds):
            CONSOLE.log(f"round {number + 1} of {rounds}")
            done.append(bench.round())
        return done, bench.throttled(limited)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.transfer", description=__doc__)
    parser.add_argument("--size", type=float, default=1.0, help="of the image, GB")
    parser.add_argument("--rounds", type=int, default=3, help="after one warm-up round")
    parser.add_argument("--limit", type=float, default=100.0, help="MB/s of the transfer that is throttled")
    parser.add_argument("--dir", type=Path, default=None, help="working directory (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    if shutil.which("curl") is None:
        raise SystemExit("curl, the baseline of this comparison, is not installed; on Debian: apt-get install curl")
    if find_nginx() is None:
        CONSOLE.log(MISSING)
    limit = int(arguments.limit * 1e6)
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="bench-") as scratch:
        rounds, throttled = _measure(Path(scratch), int(arguments.size * 1e9), arguments.rounds, limit)
    found = summary(rounds)
    if arguments.json:
        got = {"asked": arguments.limit, "got": throttled.rate / 1e6}
        print(json.dumps({"machine": machine(), "rounds": arguments.rounds, "ways": found, "throttle": got}))
        return
    kernel = "with" if _KERNEL_TLS.exists() else "without"
    print(f"{machine()}, {kernel} kernel TLS; {throttled.size / 1e9:.2f} GB, median of {arguments.rounds} rounds")
    print("\n".join(table(found)))
    print(f"throttled: {arguments.limit:,.1f} MB/s requested, {throttled.rate / 1e6:,.1f} measured")


if __name__ == "__main__":
    main()
