"""The guard in `conftest.py`: tests reach this machine and no other."""

import socket
from pathlib import Path

import pytest


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_connecting_elsewhere_is_refused(method: str) -> None:
    """A connection to an address that is not loopback raises, and the message names the address."""
    with socket.socket() as sock, pytest.raises(RuntimeError, match=r"192\.0\.2\.1"):
        getattr(sock, method)(("192.0.2.1", 80))


def test_connecting_elsewhere_over_ipv6_is_refused() -> None:
    """IPv6 is guarded like IPv4."""
    with socket.socket(socket.AF_INET6) as sock, pytest.raises(RuntimeError, match="2001:db8::1"):
        sock.connect(("2001:db8::1", 80))


def test_sending_a_datagram_elsewhere_is_refused() -> None:
    """UDP needs no connection, and is guarded as well."""
    with socket.socket(type=socket.SOCK_DGRAM) as sock, pytest.raises(RuntimeError, match=r"192\.0\.2\.1"):
        sock.sendto(b"", ("192.0.2.1", 53))


def test_looking_up_a_foreign_name_is_refused() -> None:
    """A name is refused before the lookup, so the message has the host, and no resolver is contacted."""
    with pytest.raises(RuntimeError, match=r"host\.example"):
        socket.getaddrinfo("host.example", 443)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_is_open(host: str) -> None:
    """A server on this machine can be reached."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((host, port), timeout=5) as client:
            peer = client.getpeername()

    assert peer == ("127.0.0.1", port)


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="this platform has no Unix sockets")
def test_unix_sockets_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Unix socket is a file of this machine, whether its path is absolute or relative."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("guard")
        server.listen()

        client.connect("guard")
