"""Runs the simulator alone: `python -m bot.simulator --port 8765`."""

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Sequence

from bot.simulator.simulator import Simulator


def main(arguments: Sequence[str] | None = None) -> int:
    """The simulator runs until Ctrl-C or SIGTERM. Exit status 1 when the port is taken."""
    parser = argparse.ArgumentParser(prog="python -m bot.simulator", description="A strict local Slack.")
    parser.add_argument("--port", type=int, default=8765, help="port on 127.0.0.1, 0 for any (default: %(default)s)")
    parser.add_argument("--enforce-rates", action="store_true", help="refuse calls beyond Slack's rate limits")
    parser.add_argument("--verbose", action="store_true", help="tell what happens on standard error")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        with Simulator(options.port, enforce_rates=options.enforce_rates) as slack:
            print(f"page             {slack.url}", f"SLACK_API_URL    {slack.api_url}", sep="\n")
            print(f"SLACK_BOT_TOKEN  {slack.bot_token}", f"SLACK_APP_TOKEN  {slack.app_token}", sep="\n", flush=True)
            ended.wait()
    except OSError as error:
        print(f"port {options.port} of 127.0.0.1 cannot be used: {error.strerror}; try --port 0", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
