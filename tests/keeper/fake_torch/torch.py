"""As much of torch as the heartbeat uses, failing where told to; put on PYTHONPATH of a heartbeat's process.

FAKE_TORCH is a folder: `log` receives what was done, a line each; `import_s` holds for how long the import blocks with
the interpreter's lock taken, as loading torch's libraries does; `hang_s` the same for a touch; `fail` holds how many of
the next touches fail, over all processes; `fail_mm` the same for products.
"""

import ctypes
import os
import time
from pathlib import Path
from types import SimpleNamespace

__version__ = "0.0"
version = SimpleNamespace(cuda="13.0")
float32 = "float32"
_folder = Path(os.environ["FAKE_TORCH"])


def _log(line):
    with (_folder / "log").open("a") as file:
        file.write(f"{os.getpid()} {line}\n")


def _number(name):
    file = _folder / name
    return int(file.read_text()) if file.exists() else 0


def _block(seconds):
    """Hold the interpreter's lock, whatever signal comes."""
    while seconds:
        seconds = ctypes.PyDLL(None).sleep(seconds)


class _Tensor:
    def add_(self, _value):
        _log("add")
        _block(_number("hang_s"))

    def zero_(self):
        _log("zero")
        left = _number("fail")
        if left:
            (_folder / "fail").write_text(str(left - 1))
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nsecond line")

    def __del__(self):
        _log("freed")


def zeros(*size, dtype=float32, device):
    _log(f"zeros {' '.join(map(str, size))} {dtype} {device}")
    return _Tensor()


def rand(rows, columns, device):
    return _Tensor()


def mm(left, right, out):
    left_to_fail = _number("fail_mm")
    if left_to_fail:
        (_folder / "fail_mm").write_text(str(left_to_fail - 1))
        raise RuntimeError("CUDA error: out of memory\nsecond line")
    if not mm.seen:
        _log("mm")
    mm.seen = True
    time.sleep(1e-4)


mm.seen = False


cuda = SimpleNamespace(
    is_available=lambda: True,
    synchronize=lambda *_: None,
    empty_cache=lambda: _log("empty_cache"),
)

_order, _visible = os.environ.get("CUDA_DEVICE_ORDER"), os.environ.get("CUDA_VISIBLE_DEVICES")
_log(f"import order={_order} visible={_visible}")
_block(_number("import_s"))
