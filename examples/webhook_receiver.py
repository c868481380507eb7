"""A webhook receiver: hears of the end of each task, checks who says so, and acts once.

python examples/webhook_receiver.py 9000

Somewhere that the pool's server can reach, with https in front of it (a tunnel or a proxy); then

potluck webhooks add https://you.example/hook --kind task.finished
export POTLUCK_WEBHOOK_SECRET=whsec_…     (as that command shows it, this once)

To try it on one machine: `POTLUCK_WEBHOOK_ALLOW=127.0.0.1:9000 make up`, and then the address is
http://127.0.0.1:9000/hook; the server reaches nothing on its own machine without that.

For every task that ends it prints a line such as `hello.py: succeeded`. An event is signed, so
nobody else can make this program act. It may come more than once, always with the same id: what was
done is written down, and not done twice, also after a restart. More: docs/notifications.md
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from potluck.webhook import ReceivedEvent, UntrustedWebhook, verify

SECRET = os.environ.get("POTLUCK_WEBHOOK_SECRET", "")
SEEN = Path("webhook-events.txt")


def act(event: ReceivedEvent) -> None:
    """Whatever you want to happen: a message, the next step, a light that goes on."""
    what = event.task_name or "No task"  # such as the event of `potluck webhooks test`
    print(f"{what}: {event.data.get('state', event.kind)}", flush=True)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            event = verify(SECRET, self.headers, body)
        except UntrustedWebhook as error:
            self.answer(400, str(error))
            return
        done = SEEN.read_text().split() if SEEN.exists() else []
        if event.id not in done:
            act(event)
            with SEEN.open("a") as file:
                file.write(f"{event.id}\n")
        self.answer(200, "thank you")

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """What is worth saying is printed above."""


if __name__ == "__main__":
    if not SECRET:
        sys.exit("Set POTLUCK_WEBHOOK_SECRET to what `potluck webhooks add` showed.")
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
