"""Reports for tests: an ordinary one, and one of any size with hostile names."""

from __future__ import annotations

from lab.report import FailedRun, Report, Row, Verdict

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 100


def report(experiment_id: str) -> Report:
    """What agent/report would have written about two models."""
    return Report(
        experiment_id=experiment_id,
        title="resnet50 against efficientnet_b0 on digits",
        verdict=Verdict(headline="resnet50 is better", details=("both were still improving",)),
        rows=(Row(label="resnet50", model="resnet50", n_ok=3, n=3, mean=0.953, sd=0.013, low=0.92, high=0.98),),
        metric="val_acc",
        n_ok=4,
        gpu_hours=0.19,
        peak_memory_bytes=2 * 2**30,
        again="overnight ask 'compare ResNet50 vs EfficientNet'",
        figures=("curves.png",),
    )


def monster(points: int, name: str) -> Report:
    """A report in which every foreign text is `name`."""
    row = Row(label=name, model=name, dataset=name, n_ok=1, n=3, mean=1e-9, sd=1e9, low=-1e9, high=1e9)
    return Report(
        experiment_id="exp-1",
        title=name,
        verdict=Verdict(headline=name, details=(name,) * 30),
        rows=(row,) * points,
        notes=(name,) * 30,
        warnings=(name,) * 30,
        metric=name[:100],
        failed=tuple(FailedRun(run_id=f"exp-1/{i}", label=name, cause=name, message=name) for i in range(60)),
        again=name,
    )
