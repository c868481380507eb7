"""What came of all the requests, as JSON for whoever runs it at night."""

import json
import time
from collections import Counter
from typing import Any

_MOST_SHOWN = 20


class Counts:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.by_source: Counter[str] = Counter()
        self.by_caller: Counter[str] = Counter()
        self.by_status: Counter[int] = Counter()
        self.by_operation: Counter[str] = Counter()
        self.mistakes: list[str] = []
        self._began = time.monotonic()

    @property
    def requests(self) -> int:
        return self.by_source.total()

    def count(self, source: str, caller: str, operation: str, status: int) -> None:
        self.by_source[source] += 1
        self.by_caller[caller] += 1
        self.by_status[status] += 1
        self.by_operation[operation] += 1

    def blame(self, text: str) -> None:
        self.mistakes.append(text[:2000])

    def report(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "requests": self.requests,
            "seconds": round(time.monotonic() - self._began, 1),
            "by_source": dict(self.by_source),
            "by_caller": dict(self.by_caller),
            "by_status": {str(status): self.by_status[status] for status in sorted(self.by_status)},
            "operations": len(self.by_operation),
            "fewest_of_an_operation": min(self.by_operation.values(), default=0),
            "server_errors": sum(n for status, n in self.by_status.items() if status >= 500),
            "mistakes": self.mistakes[:_MOST_SHOWN],
        }

    def written(self) -> str:
        return json.dumps(self.report(), indent=2)
