"""The examples on the real platform."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.cli.command_line import CommandLine
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess

EXAMPLES = Path(__file__).parents[2] / "examples"
EPOCHS = 10


def test_a_function_is_mapped_and_an_interrupted_training_goes_on(tmp_path: Path) -> None:
    """The node is killed in the middle; the next attempt begins where a checkpoint was."""
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(tmp_path))
        node = stack.enter_context(ProviderProcess(tmp_path / "node", server, **FAST_PROVIDER))
        person = CommandLine(tmp_path / "config", server.url, server.token)
        darts = [sys.executable, str(EXAMPLES / "estimate_pi.py"), "50"]
        told = subprocess.run(darts, env=person.variables, capture_output=True, timeout=60)
        assert told.stdout.startswith(b"50,000 darts: pi is about 3.1"), told.stderr
        script = EXAMPLES / "train_with_checkpoint.py"
        asked = ("--checkpoint", "0.1s", "--output", tmp_path / "trained", script)
        running = stack.enter_context(
            person.start("run", *asked, f"--epochs={EPOCHS}", "--seconds=0.15")
        )
        stack.callback(running.kill)
        assert running.stdout is not None
        seen = []
        for line in running.stdout:
            seen.append(line.decode().strip())
            if seen[-1].startswith("epoch 5:") and node.process.returncode is None:
                node.kill()
                stack.enter_context(ProviderProcess(tmp_path / "node", server, **FAST_PROVIDER))
        assert running.wait(30) == 0
    epochs = [int(line.split()[1].rstrip(":")) for line in seen if line.startswith("epoch")]
    (went_on,) = [line for line in seen if line.startswith("goes on")]
    kept = int(went_on.split()[-1])
    assert 1 <= kept <= 6
    assert epochs[-(EPOCHS - kept) :] == list(range(kept + 1, EPOCHS + 1)), epochs
    assert (tmp_path / "trained" / "line.txt").read_text() == "y = 3.00 x + -1.01\n"
