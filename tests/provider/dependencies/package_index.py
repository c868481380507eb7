"""A package index on loopback, and packages built by hand, kind and hostile."""

import contextlib
import hashlib
import io
import tarfile
import textwrap
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def wheel(name: str, files: dict[str, bytes], version: str = "1.0") -> tuple[str, bytes]:
    """A pure wheel's file name and bytes."""
    info = f"{name}-{version}.dist-info"
    content = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    content[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in content).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    return f"{name}-{version}-py3-none-any.whl", packed.getvalue()


def sdist(name: str, backend: str) -> tuple[str, bytes]:
    """A source distribution whose build backend is the given code and then builds a wheel."""
    root = f"{name}-1.0"
    file_name, built = wheel(name, {f"{name}.py": b"built = True\n"})
    build = f"""
        def build_wheel(directory, config_settings=None, metadata_directory=None):
            with open(directory + "/{file_name}", "wb") as file:
                file.write({built!r})
            return "{file_name}"
        """
    files = {
        "pyproject.toml": b'[build-system]\nrequires = []\nbuild-backend = "backend"\n'
        b'backend-path = ["."]\n',
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        "backend.py": (textwrap.dedent(backend) + textwrap.dedent(build)).encode(),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(f"{root}/{path}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return f"{root}.tar.gz", packed.getvalue()


class LoopbackIndex:
    """Serves what was added; counts requests; can redirect, and can keep a file waiting."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.asked = threading.Event()  # a file that stalls was asked for
        self.closing = threading.Event()
        self.port = 0
        self._pages: dict[str, str] = {}
        self._files: dict[str, bytes] = {}
        self._redirects: dict[str, str] = {}
        self._stalled: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/simple"

    def add(self, name: str, file_name: str, data: bytes, base: str = "") -> None:
        """Offers a file; with `base`, the page says that it is found there."""
        digest = hashlib.sha256(data).hexdigest()
        attributes = self._describe(file_name, data) if file_name.endswith(".whl") else ""
        link = f'<a href="{base}/files/{file_name}#sha256={digest}"{attributes}>{file_name}</a>'
        self._pages[f"/simple/{name}/"] = f"<!doctype html><html><body>{link}</body></html>"
        self._files[f"/files/{file_name}"] = data

    def _describe(self, file_name: str, data: bytes) -> str:
        """Offers the metadata as a file of its own, so that resolving needs no wheel."""
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            path = next(name for name in archive.namelist() if name.endswith("/METADATA"))
            metadata = archive.read(path)
        self._files[f"/files/{file_name}.metadata"] = metadata
        return f' data-core-metadata="sha256={hashlib.sha256(metadata).hexdigest()}"'

    def stall(self, file_name: str) -> None:
        self._stalled.add(f"/files/{file_name}")

    def serve_again(self) -> None:
        self._stalled.clear()

    def replace(self, file_name: str, data: bytes) -> None:
        """Serves other bytes under a name whose hash is known."""
        self._files[f"/files/{file_name}"] = data

    def redirect(self, path: str, target: str) -> None:
        self._redirects[path] = target

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.requests.append(path)
        if path in self._stalled:
            self.asked.set()
            self.closing.wait(60)
        if path in self._redirects:
            return 302, {"Location": self._redirects[path]}, b""
        if path in self._pages:
            return 200, {"Content-Type": "text/html"}, self._pages[path].encode()
        if path in self._files:
            return 200, {"Content-Type": "application/octet-stream"}, self._files[path]
        return 404, {}, b""


@contextlib.contextmanager
def loopback_index() -> Iterator[LoopbackIndex]:
    index = LoopbackIndex()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(index))
    server.daemon_threads = True
    index.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield index
    finally:
        index.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(index: LoopbackIndex) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = index.answer(self.path)
            with contextlib.suppress(OSError):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *arguments: object) -> None:
            pass

    return Handler
