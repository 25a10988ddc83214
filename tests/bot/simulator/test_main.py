"""The simulator as a program."""

import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_program_prints_its_addresses_and_ends_cleanly(end: signal.Signals) -> None:
    """`python -m bot.simulator` is what a newcomer starts first; Ctrl-C leaves no traceback."""
    command = [sys.executable, "-m", "bot.simulator", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        told = dict(program.stdout.readline().split() for _ in range(4))
        with urlopen(told["page"], timeout=5) as answer:
            assert answer.status == 200
        program.send_signal(end)
        _, complaints = program.communicate(timeout=10)

    assert told["SLACK_BOT_TOKEN"].startswith("xoxb-")
    assert told["SLACK_APP_TOKEN"].startswith("xapp-")
    assert (program.returncode, complaints) == (0, "")
