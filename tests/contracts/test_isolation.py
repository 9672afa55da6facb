"""Every test has a private home and no network."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from adaptrag_cli import locations
from network_guard import NetworkRefused


def test_an_address_elsewhere_is_refused_and_remembered(network_attempts: list[str]) -> None:
    with socket.socket() as client, pytest.raises(NetworkRefused):
        client.connect(("192.0.2.1", 80))
    with socket.socket() as client, pytest.raises(NetworkRefused):
        client.connect_ex(("192.0.2.1", 80))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, pytest.raises(NetworkRefused):
        client.sendto(b"x", ("192.0.2.1", 53))
    with pytest.raises(NetworkRefused):
        socket.getaddrinfo("example.invalid", 443)
    assert [attempt.split()[0] for attempt in network_attempts] == [
        "socket.connect",
        "socket.connect",
        "socket.sendto",
        "socket.getaddrinfo",
    ]
    network_attempts.clear()


def test_this_machine_may_be_talked_to(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=lambda: server.accept()[0].close())
        answering.start()
        with socket.create_connection(("localhost", server.getsockname()[1]), timeout=10) as client:
            assert client.recv(1) == b""
        answering.join()
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"x")
        assert right.recv(1) == b"x"


def test_home_folder_and_variables_are_private(private_home: Path, tmp_path: Path) -> None:
    assert Path.home() == private_home
    assert Path.cwd() == tmp_path
    assert [name for name in os.environ if name.startswith(("ADAPTRAG_", "XDG_"))] == []
    for place in (locations.user_data_dir(), locations.user_config_file()):
        assert private_home in place.parents
