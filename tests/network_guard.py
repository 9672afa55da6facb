"""Refuse the network to a test, whichever Python library of this process opens the connection."""

from __future__ import annotations


class NetworkRefused(BaseException):
    """A test reached for the network. Not an `Exception`, so that no product code can swallow it."""


class NetworkGuard:
    """Refuse every address but this machine's, by an audit hook: no library can keep a `socket` of its own."""

    def __init__(self) -> None:
        self.active = False
        self.attempts: list[str] = []

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if not self.active or not event.startswith("socket."):
            return
        if event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
            address = args[1]
            host = address[0] if isinstance(address, tuple) and address else None  # a str is a Unix socket
        elif event in {"socket.getaddrinfo", "socket.gethostbyname"}:
            host = args[0]
        else:
            return
        name = host.decode() if isinstance(host, bytes) else host
        if isinstance(name, str) and name not in {"127.0.0.1", "::1", "localhost", ""}:
            self.attempts.append(f"{event} {name}")
            raise NetworkRefused(f"{event} {name}: tests may only talk to 127.0.0.1")
