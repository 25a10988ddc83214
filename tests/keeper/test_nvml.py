"""The real nvidia-ml-py over the C library of fake_nvml.c, which answers from state files."""

from __future__ import annotations

import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from keeper.nvml import DriverCards
from lab.card import Card, CardProcess
from lab.errors import CardError

GIB = 1024**3


class FakeDriver:
    """A driver without a GPU."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self.library = library

    def card(self, number: int | str, **fields: object) -> None:
        """Card `number` answers with these fields and with usual values for the rest; None takes a field away."""
        usual: dict[str, object] = {
            "uuid": f"GPU-{number}",
            "name": "NVIDIA L20X 144GB",
            "bus": 0x10 + int(number) if isinstance(number, int) else None,
            "total": 144 * GIB,
            "used": 2 * GIB,
            "v2_used": GIB,
            "util": 0,
            "temp": 35,
            "power": 70_000,
            "procs": "",
        }
        lines = [f"{key} {value}\n" for key, value in (usual | fields).items() if value is not None]
        new = self.folder / f".{number}"
        new.write_text("".join(lines))
        new.rename(self.folder / str(number))

    def gone(self, error: int) -> None:
        """Every call gives this error from now on."""
        (self.folder / "driver").write_text(f"error {error}\n")

    def back(self) -> None:
        """The driver was loaded again; handles of before are worth nothing."""
        (self.folder / "driver").unlink()


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """fake_nvml.c compiled under the name by which the real library is looked for."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not here, so there is no library to put in the driver's place")
    library = tmp_path_factory.mktemp("lib") / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("fake_nvml.c")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.fixture
def driver(fake_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """The fake driver under this process's nvidia-ml-py, with no card yet."""
    import pynvml

    folder = tmp_path / "driver"
    folder.mkdir()
    monkeypatch.setenv("FAKE_NVML", str(folder))
    library = ctypes.CDLL(str(fake_library))
    library.nvmlShutdown()
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    yield FakeDriver(folder, fake_library)

    shutil.rmtree(folder)  # lets go of calls that hang


def cards_of(driver: FakeDriver, **options: float) -> DriverCards:
    return DriverCards("node", **{"deadline_s": 0.3, "reopen_s": 0.0, **options})


def test_a_card_is_read_with_its_identity_and_fields(driver: FakeDriver) -> None:
    driver.card(0, util=98, temp=72, procs=f"{os.getpid()}:{GIB} 999999999:-1")

    (card,) = cards_of(driver).read()

    assert (card.uuid, card.index, card.name, card.host) == ("GPU-0", 0, "NVIDIA L20X 144GB", "node")
    assert (card.memory_used_bytes, card.memory_total_bytes) == (GIB, 144 * GIB)
    assert (card.utilization_pct, card.temperature_c, card.power_mw) == (98.0, 72.0, 70_000)
    assert not card.lost
    assert card.problem is None
    assert abs(card.read_at - time.time()) < 5
    ours, hosts = card.processes
    assert ours.pid == os.getpid()
    assert ours.name
    assert hosts == CardProcess(pid=999999999, memory_bytes=None, name=None)


def test_memory_falls_back_to_the_first_version(driver: FakeDriver) -> None:
    """Drivers before 510 have no nvmlMemory_v2."""
    driver.card(0, v2_used=None)

    (card,) = cards_of(driver).read()

    assert card.memory_used_bytes == 2 * GIB


def test_a_slowed_or_broken_card_says_so(driver: FakeDriver) -> None:
    """A power cap under load and an idle card are no trouble; a driver that does not tell leaves it unknown."""
    driver.card(0, throttle=0x01 | 0x04, ecc=0)
    driver.card(1, throttle=0x04 | 0x40, ecc=2)
    driver.card(2)
    fine, bad, silent = DriverCards("lab-a").read()

    assert (fine.throttled, fine.ecc_errors) == ("", 0)
    assert (bad.throttled, bad.ecc_errors) == ("heat, by the hardware", 2)
    assert (silent.throttled, silent.ecc_errors) == (None, None)


def heard(source: DriverCards) -> list[Card]:
    """The second reading, which knows what the driver told between the two."""
    source.read()
    time.sleep(0.1)
    return source.read()


def test_a_fatal_xid_is_told_until_the_card_is_reset(driver: FakeDriver, caplog: pytest.LogCaptureFixture) -> None:
    """The driver tells it once; a lost card that is back was reset. What programs do wrong is only logged."""
    driver.card(0, xids="31")
    source = cards_of(driver)
    source.read()
    driver.card(0, xids="31 43 13")
    (harmless,) = heard(source)
    driver.card(0, xids="31 43 13 95 43")
    (fatal,) = heard(source)
    (still,) = source.read()
    driver.card(0, xids="", lost=1)
    source.read()
    driver.card(0, xids="")
    source.read()
    (back,) = source.read()

    assert (harmless.xid, harmless.fault) == (None, None)
    assert (fatal.xid, still.xid) == (95, 95)
    assert fatal.fault == "Xid 95: an uncontained memory error"
    assert (back.lost, back.xid) == (False, None)
    assert "reports Xid 43" in caplog.text
    assert "reports Xid 31" not in caplog.text  # from before anybody listened


def test_a_fatal_xid_outlasts_a_new_look_at_the_driver(driver: FakeDriver) -> None:
    """Another card that is lost, or a card that comes, has the library initialised anew, which resets nothing."""
    driver.card(0, xids="")
    listed = ["0000:10:00.0"]
    source = DriverCards("node", deadline_s=0.3, listed=lambda: frozenset(listed))
    source.read()
    driver.card(0, xids="48")
    heard(source)
    driver.card(1)
    listed.append("0000:11:00.0")
    broken, new = source.read()
    driver.gone(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    with pytest.raises(CardError):
        source.read()
    driver.back()

    assert (broken.xid, new.xid) == (48, None)
    assert source.read()[0].xid is None


def test_pcie_throughput_is_measured_between_readings(driver: FakeDriver) -> None:
    """The call blocks for 20 ms each way, which no reading waits for."""
    driver.card(0, pcie="1500 300")
    driver.card(1)
    source = cards_of(driver)
    first, _ = source.read()
    time.sleep(0.2)
    second, silent = source.read()
    driver.card(0, pcie="9 9")
    time.sleep(0.1)
    third, _ = source.read()

    assert (first.pcie_rx_bytes_per_s, first.pcie_tx_bytes_per_s) == (None, None)
    assert (second.pcie_rx_bytes_per_s, second.pcie_tx_bytes_per_s) == (1_500_000, 300_000)
    assert (silent.pcie_rx_bytes_per_s, silent.pcie_tx_bytes_per_s) == (None, None)
    assert third.pcie_rx_bytes_per_s == second.pcie_rx_bytes_per_s  # not due yet


def test_a_driver_that_keeps_no_xids_for_us_is_read_all_the_same(driver: FakeDriver) -> None:
    driver.card(0, xids=None)
    source = cards_of(driver)
    source.read()
    (card,) = source.read()

    assert (card.xid, card.problem) == (None, None)


def test_what_the_driver_does_not_tell_is_unknown_and_never_zero(driver: FakeDriver) -> None:
    driver.card(0, util=None, temp=None, power=None, name=None)
    driver.card(1, total=0, used=0, v2_used=0)
    driver.card(2, total=None, procs=None)

    unknown, no_bytes, blind = cards_of(driver).read()

    assert (unknown.utilization_pct, unknown.temperature_c, unknown.power_mw) == (None, None, None)
    assert unknown.memory_used_bytes == GIB
    assert (no_bytes.memory_used_bytes, no_bytes.memory_total_bytes) == (None, None)
    assert no_bytes.problem is None
    assert blind.problem is not None
    assert "may be busy" in blind.problem


def test_cards_come_in_pci_order_whatever_the_driver_numbers(driver: FakeDriver) -> None:
    driver.card(0, bus=0x80)
    driver.card(1, bus=0x10)

    source = cards_of(driver)

    assert [(card.uuid, card.index) for card in source.read()] == [("GPU-1", 0), ("GPU-0", 1)]
    assert [(card.uuid, card.index) for card in source.read()] == [("GPU-1", 0), ("GPU-0", 1)]


def test_mig_slices_are_cards_of_their_own(driver: FakeDriver) -> None:
    driver.card(0)
    driver.card(1, mig=2)
    driver.card("1.0", uuid="MIG-a", name="NVIDIA A100 MIG 1g.5gb", util=None, temp=None)
    driver.card("1.1", uuid="MIG-b", name="NVIDIA A100 MIG 1g.5gb", util=None, temp=None, procs="77:1000")
    driver.card(2, mig=0)

    whole, first, second, unsliced = cards_of(driver).read()

    assert [card.uuid for card in (whole, first, second)] == ["GPU-0", "MIG-a", "MIG-b"]
    assert (first.index, second.index) == (1, 1)
    assert (first.name, second.name) == ("NVIDIA A100 MIG 1g.5gb #0", "NVIDIA A100 MIG 1g.5gb #1")
    assert first.utilization_pct is None
    assert first.temperature_c == 35.0
    assert [process.pid for process in second.processes] == [77]
    assert "no slice" in (unsliced.problem or "")


def test_64_cards_of_which_8_are_lost_are_all_listed(driver: FakeDriver) -> None:
    for number in range(64):
        driver.card(number, lost=1 if number % 8 == 3 else None)

    source = cards_of(driver, reopen_s=60.0)
    cards = source.read()
    times_s = []
    for _ in range(20):
        begun = time.perf_counter()
        source.read()
        times_s.append(time.perf_counter() - begun)

    print(f"64 cards, 8 lost: a reading takes {statistics.median(times_s) * 1000:.1f} ms at the median")
    assert [card.index for card in cards] == list(range(64))
    assert [card.index for card in cards if card.lost] == list(range(3, 64, 8))
    assert all(card.memory_used_bytes is None for card in cards if card.lost)
    assert all(card.memory_used_bytes == GIB for card in cards if not card.lost)


def test_a_card_that_falls_off_the_bus_is_lost_and_may_come_back(driver: FakeDriver) -> None:
    """Its handle is never used again; only a new initialisation sees it healthy."""
    driver.card(0)
    driver.card(1)
    source = cards_of(driver)
    source.read()

    driver.card(1, lost=1)
    lost = source.read()[1]
    still = source.read()[1]
    driver.card(1)
    back = source.read()[1]

    assert (lost.uuid, lost.lost) == ("GPU-1", True)
    assert "GPU is lost" in (lost.problem or "")
    assert (still.uuid, still.index, still.lost) == ("GPU-1", 1, True)
    assert (back.uuid, back.lost, back.problem) == ("GPU-1", False, None)


def test_the_other_cards_stay_in_sight_while_the_driver_is_initialised_anew(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without persistence mode that takes seconds; their last readings age meanwhile."""
    driver.card(0)
    driver.card(1)
    source = cards_of(driver, open_wait_s=0.1)
    source.read()
    driver.card(1, lost=1)
    before = source.read()
    init = pynvml.nvmlInit
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: (time.sleep(0.3), init()))

    meanwhile = source.read()
    time.sleep(0.4)
    after = source.read()

    assert meanwhile == before
    assert [card.lost for card in after] == [False, True]
    assert after[0].read_at > before[0].read_at


def test_a_driver_that_takes_long_to_start_is_said_and_then_read(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.card(0)
    source = cards_of(driver, open_wait_s=0.05)
    init = pynvml.nvmlInit
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: (time.sleep(0.2), init()))

    with pytest.raises(CardError, match="has not answered for 0 s"):
        source.read()
    time.sleep(0.3)

    assert source.read()[0].uuid == "GPU-0"


def test_a_card_that_the_driver_stops_listing_stays_as_lost(driver: FakeDriver) -> None:
    for number in range(3):
        driver.card(number)
    source = cards_of(driver)
    source.read()

    driver.card(1, lost=1)
    source.read()
    (driver.folder / "2").rename(driver.folder / "1")  # after the restart the driver numbers anew
    cards = source.read()

    assert [(card.uuid, card.index, card.lost) for card in cards] == [
        ("GPU-0", 0, False),
        ("GPU-1", 1, True),
        ("GPU-2", 2, False),
    ]


def test_a_card_that_comes_while_running_is_seen(driver: FakeDriver) -> None:
    """The library counts cards only when it is initialised; the kernel's list says when to do that anew."""
    driver.card(0)
    listed = ["0000:10:00.0"]
    source = DriverCards("node", deadline_s=0.3, listed=lambda: frozenset(listed))
    before = source.read()

    driver.card(1)
    listed.append("0000:11:00.0")
    after = source.read()

    assert [card.uuid for card in before] == ["GPU-0"]
    assert [card.uuid for card in after] == ["GPU-0", "GPU-1"]


def test_mig_slices_come_and_go_without_a_restart(driver: FakeDriver) -> None:
    driver.card(0)
    source = cards_of(driver)
    whole = source.read()

    driver.card("0.0", uuid="MIG-a", name="NVIDIA A100 MIG 1g.5gb")
    driver.card(0, mig=1)
    sliced = source.read()
    driver.card(0)
    again = source.read()

    assert [[card.uuid for card in cards] for cards in (whole, sliced, again)] == [["GPU-0"], ["MIG-a"], ["GPU-0"]]


def test_a_process_is_named_anew_when_another_one_came(driver: FakeDriver) -> None:
    driver.card(0, procs=f"{os.getpid()}:1")
    source = cards_of(driver)
    ours = source.read()[0].processes[0]

    driver.card(0, procs="")
    source.read()
    driver.card(0, procs="999999999:1")
    other = source.read()[0].processes[0]

    assert ours.name
    assert other.name is None


def test_a_card_that_only_gives_errors_is_lost(driver: FakeDriver) -> None:
    """In a container that lost its device files every call gives "Unknown Error"."""
    driver.card(0)
    source = cards_of(driver)
    source.read()

    driver.card(0, error=pynvml.NVML_ERROR_UNKNOWN)
    (card,) = source.read()

    assert card.lost
    assert "Unknown Error" in (card.problem or "")


def test_a_card_that_hangs_costs_only_itself(driver: FakeDriver) -> None:
    driver.card(0)
    driver.card(1)
    source = cards_of(driver)
    before = source.read()

    driver.card(1, hang=1)
    begun = time.monotonic()
    first = source.read()
    first_s, begun = time.monotonic() - begun, time.monotonic()
    second = source.read()
    second_s = time.monotonic() - begun
    driver.card(1)
    time.sleep(0.2)
    after = source.read()

    print(f"with a hanging card: the first reading took {first_s:.3f} s, the next {second_s:.3f} s")
    assert first_s < 1.0
    assert second_s < first_s
    assert second[0].read_at > before[0].read_at
    assert first[1].read_at == second[1].read_at == before[1].read_at
    assert "has not answered" in (second[1].problem or "")
    assert not second[1].lost
    assert after[1].problem is None
    assert after[1].read_at > before[1].read_at


def test_a_card_that_hangs_from_the_start_is_there_and_not_usable(driver: FakeDriver) -> None:
    driver.card(0)
    driver.card(1, hang=1)

    healthy, hanging = cards_of(driver).read()

    assert not healthy.lost
    assert (hanging.index, hanging.lost) == (1, True)
    assert "has not answered" in (hanging.problem or "")


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "modprobe nvidia"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "different versions"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "/dev/nvidia"),
        (pynvml.NVML_ERROR_UNKNOWN, "nvidia-smi"),
    ],
)
def test_a_driver_that_does_not_work_is_an_error_that_says_what_to_do(
    driver: FakeDriver, error: int, advice: str
) -> None:
    driver.card(0)
    driver.gone(error)

    with pytest.raises(CardError, match=advice):
        cards_of(driver).read()


def test_a_driver_that_goes_and_comes_back_is_initialised_anew(driver: FakeDriver) -> None:
    driver.card(0)
    source = cards_of(driver)
    source.read()

    driver.gone(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    for _ in range(2):
        with pytest.raises(CardError, match="modprobe"):
            source.read()
    driver.back()
    (card,) = source.read()

    assert (card.uuid, card.lost) == ("GPU-0", False)


def test_a_driver_restarted_between_two_readings_goes_unnoticed(driver: FakeDriver) -> None:
    driver.card(0)
    source = cards_of(driver)
    source.read()

    pynvml.nvmlShutdown()
    (card,) = source.read()

    assert (card.uuid, card.lost) == ("GPU-0", False)


def test_without_a_library_the_error_says_that_there_is_no_driver() -> None:
    command = "from keeper.nvml import DriverCards; DriverCards('node').read()"

    ended = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)

    if ended.returncode == 0:
        pytest.skip("this machine has a driver")
    assert "there is no NVIDIA driver here" in ended.stderr


def test_the_library_is_found_as_the_real_one_is(driver: FakeDriver) -> None:
    """Through LD_LIBRARY_PATH, as nvidia-ml-py looks for it, in a process of its own."""
    driver.card(0, util=7)
    command = "from keeper.nvml import DriverCards; print(DriverCards('node').read()[0].utilization_pct)"

    ended = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, "LD_LIBRARY_PATH": str(driver.library.parent)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout == "7.0\n"
