"""A real pool for the pictures of the dashboard: two machines, prices, credit, tasks of every kind.

The cards of one machine are those of the NVML stub, whose readings change as if they worked; what
runs on it computes nothing on a card. Everything else is real.
"""

import json
import math
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from tests.clusters import CLUSTERS
from tests.databases import SHARED
from tests.processes import FAST_PROVIDER, Api, ProviderProcess, ServerProcess
from tests.stubs.nvml import GIB, Card, NvmlRig
from tests.wallets import Wallet

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "src" / "potluck" / "server" / "pages" / "dashboard"
CARDS = (
    Card("GPU-4090", "NVIDIA GeForce RTX 4090", 24 * GIB, temperature=61, utilisation=88),
    Card("GPU-3060", "NVIDIA GeForce RTX 3060", 12 * GIB, temperature=43, utilisation=4),
    Card("GPU-l4", "NVIDIA L4", 24 * GIB, temperature=55, utilisation=37, power_limit=72_000),
)
# Of another machine, which nobody uses: behind walls no task begins without the device nodes.
OTHERS = (
    Card("GPU-t4", "Tesla T4", 16 * GIB, capability="7.5", temperature=38, power_limit=70_000),
    Card("GPU-a40", "NVIDIA A40", 48 * GIB, capability="8.6", temperature=41),
)
SERVER = {
    "POTLUCK_DASHBOARD_DIRECTORY": str(BUILD),
    "POTLUCK_FEE_BASIS_POINTS": "500",
    "POTLUCK_EPOCH_SECONDS": "60",
    "POTLUCK_HEARTBEAT_SECONDS": "1",
    "POTLUCK_SILENT_AFTER_SECONDS": "20",
    "POTLUCK_LEASE_SECONDS": "30",
}
PROVIDER = {
    **FAST_PROVIDER,
    "POTLUCK_PROVIDER_HEARTBEAT_SECONDS": "1",
    "POTLUCK_PROVIDER_CORES": "6",
    "POTLUCK_PROVIDER_PRICE_MICRO_PER_HOUR": "3600000",
}
STUDIO = {
    **PROVIDER,
    "POTLUCK_PROVIDER_NAME": "studio",
    "POTLUCK_PROVIDER_SAMPLE_SECONDS": "1",
    "POTLUCK_PROVIDER_DETECT_SECONDS": "20",
    "OCL_ICD_VENDORS": "/nonexistent",
    "POTLUCK_PROVIDER_UNSAFE_NO_SANDBOX": "true",  # the stub has no device nodes
}
BASEMENT = {
    **PROVIDER,
    "POTLUCK_PROVIDER_NAME": "basement",
    "POTLUCK_PROVIDER_DETECT_SECONDS": "20",
    "POTLUCK_PROVIDER_PRICE_MICRO_PER_HOUR": "450000",
    "OCL_ICD_VENDORS": "/nonexistent",
}
TRAIN = """
import time
for epoch in range(1, 400):
    loss = 2.3 / (1 + epoch / 6)
    print(f"epoch {epoch:3d}  loss {loss:.4f}  accuracy {1 - loss / 3:.3f}", flush=True)
    time.sleep(1.5)
"""
SWEEP = """
import os, sys, time
item = int(os.environ["POTLUCK_ITEM"])
time.sleep(0.2)
print("rate", item / 100)
sys.exit(3 if item % 17 == 5 else 0)
"""
# The Mandelbrot set, with the standard library only.
DRAW = """
import os, struct, zlib
from pathlib import Path

WIDTH, HEIGHT, STEPS = 540, 330, 60

def colour(steps):
    share = steps / STEPS
    return bytes((int(255 * share ** 0.5), int(190 * share), int(90 * (1 - share) + 40 * share)))

def row(number):
    line = bytearray([0])
    for column in range(WIDTH):
        point, value = complex(-2.2 + 3.2 * column / WIDTH, 0.98 - 1.96 * number / HEIGHT), 0j
        for step in range(STEPS):
            value = value * value + point
            if abs(value) > 2:
                break
        line += bytes(3) if step == STEPS - 1 else colour(step)
    return bytes(line)

def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

rows = []
for number in range(HEIGHT):
    rows.append(row(number))
    if number % 30 == 29:
        print(f"{number + 1} of {HEIGHT} rows", flush=True)
png = b"\\x89PNG\\r\\n\\x1a\\n"
png += chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0))
png += chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")
output = Path(os.environ["POTLUCK_OUTPUT"])
(output / "mandelbrot.png").write_bytes(png)
(output / "rows.csv").write_text("row,steps\\n" + "".join(f"{n},{n % 60}\\n" for n in range(40)))
"""
SMALL = "import time\ntime.sleep({})\nprint('checked 2,048 rows')\n"
NAMES = ("clean survey", "resize photos", "index articles", "score answers", "transcode clip")


class LivelyPool(Struct):
    server: ServerProcess
    home: str  # node ids
    studio: str
    alice: Wallet
    client: Api
    tasks: dict[str, str]  # by name


@contextmanager
def lively_pool(port: int = 0) -> Iterator[LivelyPool]:
    with ExitStack() as stack:
        stack.callback(SHARED.close)
        stack.callback(CLUSTERS.close)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(ServerProcess(directory, port, **SERVER))
        rig = NvmlRig(directory / "rig")
        for card in CARDS:
            rig.add(card)
        name = {"POTLUCK_PROVIDER_NAME": "attic"}
        home = stack.enter_context(ProviderProcess(directory / "home", server, **PROVIDER, **name))
        studio = stack.enter_context(
            ProviderProcess(directory / "studio", server, **STUDIO, **rig.environment)
        )
        others = NvmlRig(directory / "other rig")
        for card in OTHERS:
            others.add(card)
        stack.enter_context(
            ProviderProcess(directory / "basement", server, **BASEMENT, **others.environment)
        )
        stack.enter_context(_readings(rig))
        alice = Wallet("alice of the pictures")
        client = server.client(server.sign_in(alice))
        operator = server.client()
        for api, label in ((client, "Alice, biology"), (operator, "Physics")):
            account = api.get("/v1/me")["id"]
            path = f"/v1/accounts/{account}"
            grant, label_body = {"amount_micro": 250_000_000}, {"label": label}
            for method, end, body in (("POST", "grants", grant), ("PUT", "label", label_body)):
                response = operator.call(method, f"{path}/{end}", json.dumps(body).encode())
                assert response.status < 300, response.data
        _submit(client)
        tasks = _submit(operator)
        yield LivelyPool(server, home.node_id, studio.node_id, alice, client, tasks)


def _submit(client: Api) -> dict[str, str]:
    gpu = {"device_kind": "gpu"}
    tasks = {}
    for number, name in enumerate(NAMES):
        tasks[name] = client.submit(SMALL.format(0.2 + number / 4), name=name)
    tasks["convert scans"] = client.submit(
        "raise FileNotFoundError('scans/2026-03.tif')", name="convert scans"
    )
    tasks["mandelbrot"] = client.submit(DRAW, name="mandelbrot")
    tasks["learning rates"] = client.submit(SWEEP, name="learning rates", items=120)
    tasks["fold proteins"] = client.submit(
        TRAIN, name="fold proteins", requirements={**gpu, "device_model": "*4090*"}
    )
    wants = {**gpu, "device_memory_bytes": 80 * GIB}
    tasks["large model"] = client.submit(TRAIN, name="large model", requirements=wants)
    return tasks


@contextmanager
def _readings(rig: NvmlRig) -> Iterator[None]:
    """The cards get warmer and cooler, as those that work do."""
    stop = threading.Event()

    def change() -> None:
        step = 0
        while not stop.wait(1):
            step += 1
            for place, card in enumerate(CARDS):
                wave = math.sin(step / (9 + 4 * place)) + 0.3 * math.sin(step / 2 + place)
                busy = max(0, min(100, int(int(card.utilisation) + 10 * wave)))
                rig.say(
                    card.uuid,
                    utilisation=busy,
                    temperature=int(int(card.temperature) + 3 * wave),
                    power=int(card.power_limit * (0.15 + 0.8 * busy / 100)),
                    memory_used=int(card.memory * (0.2 + 0.6 * busy / 100)),
                )

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
