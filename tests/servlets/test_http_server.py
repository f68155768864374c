from __future__ import annotations

import http.client
import queue
import socket
import threading
from collections.abc import Iterable

import pytest
from flask import Blueprint, Response, request

from servlets.application import create_application
from servlets.errors import HttpServerError
from servlets.http_server import HttpServer


def application(**routes):
    blueprint = Blueprint("test", __name__)
    for name, view in routes.items():
        blueprint.add_url_rule(f"/{name}", name, view, methods=["GET", "PUT"])
    return create_application(blueprint)


def echo_length() -> str:
    return str(len(request.get_data()))


def ask(server: HttpServer, path: str, method: str = "GET", body: bytes | Iterable[bytes] | None = None):
    connection = http.client.HTTPConnection(*server.address, timeout=600)
    try:
        connection.request(method, path, body=body, encode_chunked=True)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_server_listens_when_start_returns():
    with HttpServer(application(hello=lambda: "hi"), "127.0.0.1", 0, threads=2) as server:
        host, port = server.address
        assert (host, port > 0) == ("127.0.0.1", True)
        assert server.url == f"http://127.0.0.1:{port}"
        assert ask(server, "/hello") == (200, b"hi")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, port), timeout=5)


def test_an_idle_server_wakes_only_for_connections():
    server = HttpServer(application(hello=lambda: "hi"), "127.0.0.1", 0, threads=1)
    sleeps: queue.SimpleQueue[float | None] = queue.SimpleQueue()
    with server:
        select = server._loop._selector.select

        def watched(timeout: float | None = None):
            sleeps.put(timeout)
            return select(timeout)

        server._loop._selector.select = watched
        assert ask(server, "/hello") == (200, b"hi")
        # deadlines exist only while there is a connection
        timeouts = list(iter(lambda: sleeps.get(timeout=600), None))
        while not timeouts:
            timeouts = list(iter(lambda: sleeps.get(timeout=600), None))
        assert all(timeout > 0 for timeout in timeouts)


def test_an_address_in_use_is_an_error():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        server = HttpServer(application(), "127.0.0.1", port, threads=1)
        with pytest.raises(HttpServerError, match=f"127.0.0.1:{port}") as caught:
            server.start()
        assert caught.value.hint
        server.stop()


def test_calls_in_the_wrong_order_are_refused():
    server = HttpServer(application(), "127.0.0.1", 0, threads=1)
    with pytest.raises(HttpServerError, match="is not listening yet"):
        _ = server.address
    server.start()
    with pytest.raises(HttpServerError, match="before"):
        server.start()
    server.stop()
    server.stop()


def test_ipv6_addresses_have_brackets_in_urls():
    try:
        server = HttpServer(application(hello=lambda: "hi"), "::1", 0, threads=1)
        server.start()
    except HttpServerError:
        pytest.skip("no IPv6 here")
    with_brackets = server.url
    server.stop()
    assert with_brackets.startswith("http://[::1]:")


def test_an_error_shows_no_traceback(caplog):
    def broken() -> str:
        raise RuntimeError("secret detail")

    with HttpServer(application(broken=broken), "127.0.0.1", 0, threads=2) as server:
        status, body = ask(server, "/broken")
    assert status == 500
    assert b"secret" not in body
    assert b"Traceback" not in body
    assert "secret detail" in caplog.text


def test_an_error_within_a_response_body_is_logged(caplog, capfd):
    def broken() -> Response:
        def pieces():
            yield b"some"
            raise RuntimeError("secret detail")

        return Response(pieces())

    with (
        HttpServer(application(broken=broken), "127.0.0.1", 0, threads=2) as server,
        pytest.raises(http.client.IncompleteRead),
    ):
        ask(server, "/broken")
    assert "secret detail" in caplog.text
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("pieces", [[b"abc"], [b"abc", b"d" * 100_000]])
def test_request_bodies_with_and_without_length(pieces):
    with HttpServer(application(echo=echo_length), "127.0.0.1", 0, threads=2) as server:
        expected = str(sum(map(len, pieces))).encode()
        assert ask(server, "/echo", "PUT", b"".join(pieces)) == (200, expected)
        assert ask(server, "/echo", "PUT", iter(pieces)) == (200, expected)


def test_connection_is_reused_after_a_chunked_body():
    with HttpServer(application(echo=echo_length), "127.0.0.1", 0, threads=2) as server:
        connection = http.client.HTTPConnection(*server.address, timeout=600)
        for _ in range(3):
            connection.request("PUT", "/echo", body=iter([b"abc", b"de"]), encode_chunked=True)
            first_socket = connection.sock
            assert connection.getresponse().read() == b"5"
            assert connection.sock is first_socket
        connection.close()


def test_an_unread_body_closes_the_connection_after_the_response():
    with HttpServer(application(ignore=lambda: "no thanks"), "127.0.0.1", 0, threads=2) as server:
        connection = socket.create_connection(server.address, timeout=600)
        smuggled = b"GET /ignore HTTP/1.1\r\nHost: x\r\n\r\n"
        connection.sendall(b"PUT /ignore HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read()
        assert answer.count(b"HTTP/1.1 200") == 1
        assert b"Connection: close" in answer
        connection.close()


def test_a_client_that_sends_everything_first_gets_an_early_response():
    """Hadoop's NameNodes upload images in this way."""
    with HttpServer(application(refuse=lambda: ("no", 417)), "127.0.0.1", 0, threads=2, linger=600.0) as server:
        size = 64 << 20
        with socket.create_connection(server.address, timeout=600) as client:
            client.sendall(b"PUT /refuse HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % size)
            client.sendall(bytes(size))
            assert client.recv(100).startswith(b"HTTP/1.1 417")


@pytest.mark.parametrize("length", [b"-5", b"x"])
def test_a_malformed_content_length_is_refused(length):
    with HttpServer(application(echo=echo_length), "127.0.0.1", 0, threads=2) as server:
        connection = socket.create_connection(server.address, timeout=600)
        connection.sendall(b"PUT /echo HTTP/1.1\r\nHost: x\r\nContent-Length: " + length + b"\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 400")
        connection.close()


def test_non_ascii_targets_are_decoded_as_hadoop_clients_send_them():
    with HttpServer(application(größe=lambda: request.args["a"]), "127.0.0.1", 0, threads=2) as server:
        connection = socket.create_connection(server.address, timeout=600)
        target = "/größe?a=目".encode()
        connection.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\nGET " + target[:4])
        answers = connection.makefile("rb")
        assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
        connection.sendall(target[4:] + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answers.read().count("\r\n\r\n目".encode()) == 2
        connection.close()


def test_endless_headers_are_refused():
    with HttpServer(application(echo=echo_length), "127.0.0.1", 0, threads=2) as server:
        connection = socket.create_connection(server.address, timeout=600)
        connection.sendall(b"GET /echo HTTP/1.1\r\n" + b"A: b\r\n" * 20_000)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(12) == b"HTTP/1.1 431"
        connection.close()


def test_stop_aborts_endless_responses():
    sending = threading.Event()

    def endless() -> Response:
        def pieces():
            while True:
                yield bytes(65536)
                sending.set()

        return Response(pieces())

    server = HttpServer(application(endless=endless), "127.0.0.1", 0, threads=2, shutdown_timeout=0.1)
    server.start()
    connection = socket.create_connection(server.address, timeout=600)
    connection.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
    assert sending.wait(600)
    server.stop()
    connection.close()


def test_stop_waits_for_running_requests():
    entered, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        entered.set()
        assert go_on.wait(600)
        return "done"

    answers = []
    server = HttpServer(application(slow=slow), "127.0.0.1", 0, threads=2, shutdown_timeout=600)
    server.start()
    client = threading.Thread(target=lambda: answers.append(ask(server, "/slow")))
    client.start()
    assert entered.wait(600)
    stopper = threading.Thread(target=server.stop)
    stopper.start()
    go_on.set()
    client.join()
    stopper.join()
    assert answers == [(200, b"done")]
