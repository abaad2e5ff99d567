"""One line for each request: when, who, what, how it ended, how many rows, how many milliseconds.

    2026-11-17T16:30:00.123Z 127.0.0.1 POST /predict 200 1 2.3

It never has the query, the body or a header, where secrets are. Whatever the client can choose is written so that it
cannot begin a line or a field of its own.
"""

import contextlib
import sys
import time

from starlette.types import Scope

ROWS = "natpn.rows"  # where a route says in the scope how many rows it answered
_LONGEST = 200


class AccessLog:
    """Writes lines to standard output, each at once, so that those of several processes do not mix."""

    def write(self, scope: Scope, status: int, seconds: float) -> None:
        """Write the line of a request that was answered."""
        now = time.time()
        date = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03d}Z"
        client = plain(str(scope["client"][0])) if scope.get("client") else "-"
        path = plain(scope.get("raw_path", b"").decode("latin-1") or scope["path"])
        line = f"{date} {client} {plain(scope['method'])} {path} {status} {scope.get(ROWS, '-')} {1e3 * seconds:.1f}\n"
        with contextlib.suppress(OSError, ValueError):  # no one reads it: requests are answered nevertheless
            sys.stdout.write(line)
            sys.stdout.flush()


def plain(text: str) -> str:
    """Return a text without spaces and control characters, cut if it is long."""
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    if text.isascii() and text.isprintable() and " " not in text:
        return text or "-"
    return "".join(sign if "!" <= sign <= "~" or sign == "…" else f"%{ord(sign):02X}" for sign in text)
