"""What `potluck up` keeps of its parts."""

from pathlib import Path

from potluck.cli.operate.child_program import rotate_log


def test_logs_of_earlier_starts_are_kept_up_to_a_number(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    for start in range(10):
        rotate_log(log)
        log.write_text(f"start {start}")
    names = {path.name: path.read_text() for path in tmp_path.iterdir()}
    earlier = {f"server.log.{number}": f"start {9 - number}" for number in range(1, 8)}
    assert names == {"server.log": "start 9", **earlier}
