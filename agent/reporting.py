"""The queue function that answers an experiment whose runs have all ended."""

from __future__ import annotations

import logging
import time

from agent import desk, report
from lab.files import replace_file
from lab.report import to_markdown
from lab.run import FINAL_EXPERIMENT

log = logging.getLogger(__name__)


def write(experiment_id: str, revision: int) -> None:
    """The report stands in Redis and in files, and its event is out; harmless when it did already.

    Files: `experiments/exp-12/report-1.md` and the figures beside it, below the data folder.
    """
    here = desk.current()
    experiment = here.ledger.experiment(experiment_id)
    if experiment.state not in FINAL_EXPERIMENT or experiment.report_revision >= revision:
        log.info("%s: report %d is not due (%s)", experiment_id, revision, experiment.state)
        return
    built, figures = report.build(experiment, here.ledger.runs(experiment_id), time.time())
    built = built.model_copy(update={"revision": revision})
    folder = here.settings.data_dir / "experiments" / experiment_id
    replace_file(folder / f"report-{revision}.md", to_markdown(built).encode())
    for name, data in figures.items():
        replace_file(folder / f"{revision}-{name}", data)
    if here.ledger.save_report(experiment_id, revision, built.model_dump_json(), figures):
        log.info("%s: report %d is ready", experiment_id, revision)
