"""A webhook receiver: gets the end of each task, verifies the signature, and acts once.

python examples/webhook_receiver.py 9000

Run it where the pool's server can reach it, behind https (a tunnel or a proxy); then

potluck webhooks add https://you.example/hook --kind task.finished
export POTLUCK_WEBHOOK_SECRET=whsec_…     (shown by that command only once)

To try it on one machine: `POTLUCK_WEBHOOK_ALLOW=127.0.0.1:9000 make up`, and then the address is
http://127.0.0.1:9000/hook; without that, the server refuses addresses of its own machine.

For every task that ends it prints a line such as `hello.py: succeeded`. Events are signed,
so only the pool can make this program act. An event may arrive more than once, always with the same
ID: processed IDs are stored, so nothing is done twice, also after a restart. More:
docs/notifications.md
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from potluck.webhook import ReceivedEvent, UntrustedWebhook, verify

SECRET = os.environ.get("POTLUCK_WEBHOOK_SECRET", "")
SEEN = Path("webhook-events.txt")


def act(event: ReceivedEvent) -> None:
    """Your own action: a message, the next step, a light."""
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
