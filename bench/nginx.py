"""nginx as a server for comparison: one folder, on a plain port and on a port with TLS."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from bench.transfer_sides import Server

MISSING = "nginx is not installed, so the ratio to nginx is omitted; on Debian: apt-get install nginx-light"
_HERE = "127.0.0.1"
_SETTINGS = """
{user}
daemon off;
worker_processes auto;
pid {folder}/nginx.pid;
events {{}}
http {{
    access_log off;
    sendfile on;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_certificate {certificate};
    ssl_certificate_key {certificate};
    root {root};
    {temporary}
    server {{ listen {plain} reuseport; }}
    server {{ listen {secure} ssl reuseport; }}
}}
"""
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def find_nginx() -> str | None:
    """Return the path of nginx; on Debian it is in a directory that only root's PATH contains."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def nginx_serving(program: str, folder: Path, root: Path, certificate: Path) -> Iterator[tuple[Server, Server]]:
    """Serve `root` without and with TLS, with a worker for each core.

    Args:
        folder: folder for nginx's files, which is created.
        certificate: PEM file with the chain and the key.
    """
    folder.mkdir()
    addresses = [f"{_HERE}:{_free_port()}" for _ in range(2)]
    settings = folder / "nginx.conf"
    settings.write_text(
        _SETTINGS.format(
            # if root started nginx without this line, the workers would run as a user who cannot read temporary folders
            user="user root;" if os.geteuid() == 0 else "",
            folder=folder,
            root=root,
            certificate=certificate,
            temporary="".join(f"{name}_temp_path {folder}/{name};" for name in _TEMPORARY),
            plain=addresses[0],
            secure=addresses[1],
        )
    )
    command = [program, "-p", str(folder), "-c", str(settings), "-e", str(folder / "error.log")]
    with psutil.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            for address in addresses:
                _wait_for(address, process)
            yield Server(process, f"http://{addresses[0]}"), Server(process, f"https://{addresses[1]}")
        finally:
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.create_server((_HERE, 0)) as free:
        return int(free.getsockname()[1])


def _wait_for(address: str, process: psutil.Popen) -> None:
    host, _, port = address.partition(":")
    while process.poll() is None:
        with suppress(ConnectionRefusedError), socket.create_connection((host, int(port))):
            return
        time.sleep(0.01)
    raise SystemExit(f"nginx exited with code {process.returncode} before it served {address}")
