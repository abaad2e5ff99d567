"""Downloads from a server on this machine: whole, resumed, wrong, missing, and killed half-way."""

import hashlib
import http.server
import re
import signal
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

from natpn_paper.datasets import DamagedData, DownloadError, download, files
from natpn_paper.datasets.download import fetch, find
from natpn_paper.datasets.files import Source

CONTENT = np.random.default_rng(0).bytes(3 << 20)
HASH = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one file; the server's attributes say how badly."""

    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.asked.append(wanted)
        if self.path != "/file.bin":
            return self.send_error(404)
        if server.failures > 0:
            server.failures -= 1
            return self.send_error(503)
        start = 0
        if wanted and server.ranges and self.headers.get("If-Range", server.version) == server.version:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
        if start >= len(server.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(server.content)}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        rest = server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.send_header("ETag", server.version)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}")
        self.end_headers()
        cut = server.cuts.pop(0) if server.cuts else None
        self.wfile.write(rest[:cut])
        if server.slow:
            self.wfile.flush()
            time.sleep(server.slow)
        return None

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        running.block_on_close = False
        running.content, running.version, running.ranges = CONTENT, '"1"', True
        running.asked, running.cuts, running.failures, running.slow = [], [], 0, 0
        running.url = f"http://127.0.0.1:{running.server_port}/file.bin"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(download, "time", types.SimpleNamespace(sleep=lambda _: None))  # no rest between attempts


@pytest.fixture
def target(tmp_path):
    return tmp_path / "set" / "file.bin"


def whole(target):
    """The file is there, and nothing else."""
    return target.read_bytes() == CONTENT and [p.name for p in target.parent.iterdir()] == [target.name]


def test_a_file_arrives_whole(server, target):
    fetch(server.url, target, HASH)
    assert whole(target)
    assert server.asked == [None]
    fetch(server.url, target, HASH)  # what is there is not fetched again
    assert server.asked == [None]


def test_an_interrupted_download_goes_on(server, target):
    server.cuts = [1_000_000, 500_000]
    fetch(server.url, target, HASH)
    assert whole(target)
    assert server.asked == [None, "bytes=1000000-", "bytes=1500000-"]


def test_after_too_many_interruptions_the_part_is_kept(server, target):
    server.cuts = [1000, 1000, 1000]
    with pytest.raises(DownloadError, match=r"ended after 3,000 of 3,145,728 bytes.*continues the download"):
        fetch(server.url, target, HASH)
    assert not target.exists()
    fetch(server.url, target, HASH)
    assert whole(target)
    assert server.asked[-1] == "bytes=3000-"


def test_a_server_without_ranges_starts_over(server, target):
    server.cuts, server.ranges = [1000], False
    fetch(server.url, target, HASH)
    assert whole(target)


def test_a_part_of_another_version_is_not_continued(server, target):
    server.content = bytes(len(CONTENT))
    server.cuts = [1000, 1000, 1000]
    with pytest.raises(DownloadError):
        fetch(server.url, target)
    server.content, server.version = CONTENT, '"2"'
    fetch(server.url, target)
    assert whole(target)


def test_a_part_that_is_whole_is_only_renamed(server, target):
    target.parent.mkdir()
    (target.parent / "file.bin.part").write_bytes(CONTENT)
    fetch(server.url, target, HASH)
    assert whole(target)
    assert server.asked == [f"bytes={len(CONTENT)}-"]


def test_a_part_that_is_too_long_starts_over(server, target):
    target.parent.mkdir()
    (target.parent / "file.bin.part").write_bytes(CONTENT + b"more")
    fetch(server.url, target, HASH)
    assert whole(target)


def test_a_wrong_hash_is_an_error_and_nothing_is_left(server, target):
    expected = "0" * 64
    with pytest.raises(DamagedData) as raised:
        fetch(server.url, target, expected)
    assert [w for w in (str(target), expected, HASH, server.url, "deleted") if w not in str(raised.value)] == []
    assert not any(path.suffix in (".bin", ".part", ".version") for path in target.parent.iterdir())


def test_a_missing_page_is_an_error_at_once(server, target):
    with pytest.raises(DownloadError, match=r"other.bin could not be downloaded: the server answered 404 .*by hand"):
        fetch(server.url.replace("file", "other"), target)
    assert len(server.asked) == 1
    assert not target.exists()


def test_a_busy_server_is_asked_again(server, target):
    server.failures = 2
    fetch(server.url, target, HASH)
    assert whole(target)
    server.failures = 3
    with pytest.raises(DownloadError, match="503"):
        fetch(server.url, target.with_name("again.bin"), HASH)


def test_no_server(target):
    with pytest.raises(DownloadError, match="refused"):
        fetch("http://127.0.0.1:9/file.bin", target)


def test_a_process_killed_half_way_leaves_nothing_in_place(server, target):
    server.cuts, server.slow = [1 << 20], 30
    code = "import pathlib, sys, natpn_paper.datasets.download as d; d.fetch(sys.argv[1], pathlib.Path(sys.argv[2]))"
    process = subprocess.Popen([sys.executable, "-c", code, server.url, target])
    part = target.parent / "file.bin.part"
    end = time.monotonic() + 20
    while not (part.exists() and part.stat().st_size) and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert part.stat().st_size == 1 << 20
    assert not target.exists()
    server.slow = 0
    fetch(server.url, target, HASH)
    assert whole(target)


def test_processes_that_want_the_same_file_fetch_it_once(server, target):
    threads = [threading.Thread(target=fetch, args=(server.url, target, HASH)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert whole(target)
    assert server.asked == [None]


def test_downloads_go_to_the_directory_or_the_cache(server, tmp_path, monkeypatch):
    monkeypatch.setenv("NATPN_DATA", str(tmp_path / "shared"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    source = Source("set/file.bin", server.url, HASH)
    assert find(source, None, download=True) == tmp_path / "home/natpn/set/file.bin" == files.search([source], None)
    assert find(source, None) == tmp_path / "home/natpn/set/file.bin"
    other = Source("set/other.bin", server.url, HASH)
    assert find(other, tmp_path / "named", download=True) == tmp_path / "named/set/other.bin"
    assert not (tmp_path / "shared").exists()


def test_no_bar_in_a_pipe(server, target, capfd):
    fetch(server.url, target)
    assert capfd.readouterr() == ("", "")
