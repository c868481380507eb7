"""Looks through the logs of every server and provider that tests start, for secrets.

The end of each test and of the run look at what was logged meanwhile. A secret is what looks like
one of ours (`potluck.local.secret_patterns`), and what a test has planted.
"""

import re
from pathlib import Path

from potluck.local.secret_patterns import SECRET_PATTERNS

# As tests call what must not be found anywhere: `planted-argument-d3b07384d1`.
_PLANTED = re.compile(r"planted-[a-z-]+-[0-9a-f]{10}")
_PATTERNS = {**SECRET_PATTERNS, "a planted secret": _PLANTED}
# Around what was found, without showing it.
_CONTEXT = 60


class LogScanner:
    def __init__(self) -> None:
        self._offsets: dict[Path, int] = {}
        self._secrets: dict[str, str] = {}
        self.scanned_bytes = 0

    def watch(self, log: Path) -> None:
        """From its end on, if it is known."""
        self._offsets.setdefault(log, 0)

    def plant(self, label: str, secret: str) -> None:
        """Something that must not be in any log, whatever it looks like."""
        self._secrets[secret] = label

    def scan(self) -> list[str]:
        """What was found in what was logged since the last call."""
        return [finding for log in list(self._offsets) for finding in self._scan(log)]

    def find(self, text: str) -> list[str]:
        findings = [
            f"{label} after {text[max(0, match.start() - _CONTEXT) : match.start()]!r}"
            for label, pattern in _PATTERNS.items()
            for match in pattern.finditer(text)
        ]
        lower = text.lower()
        return findings + [label for secret, label in self._secrets.items() if secret in lower]

    def _scan(self, log: Path) -> list[str]:
        if not log.exists():
            del self._offsets[log]
            return []
        with log.open("rb") as file:
            file.seek(self._offsets[log])
            data = file.read()
        # A line that is not written to its end is looked at the next time.
        data = data[: data.rfind(b"\n") + 1]
        self._offsets[log] += len(data)
        self.scanned_bytes += len(data)
        return [f"{log}: {finding}" for finding in self.find(data.decode("utf-8", "replace"))]


SCANNER = LogScanner()
