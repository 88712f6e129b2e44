"""Who may use a card when: shares side by side, a turn alone, and nobody overtakes one who waits."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from musaagent.tools.cuda.devices import Gpu, GpuInfo, GpuPool
from musaagent.tools.cuda.programs import turn_when_ready

INFO = GpuInfo(0, "GPU-test", "a card", "sm_90", 1, "1")
WAIT_S = 10.0
OTHER = """
from musaagent.tools.cuda.devices import Gpu, GpuInfo, GpuPool
from musaagent.tools.cuda.programs import turn_when_ready
with Gpu(GpuInfo(0, "GPU-test", "a card", "sm_90", 1, "1")).turn():
    print("in", flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def _own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSAAGENT_CACHE", str(tmp_path))


def started(target: "threading.Thread") -> threading.Thread:
    target.daemon = True
    target.start()
    return target


def test_shares_are_side_by_side() -> None:
    gpu, both = Gpu(INFO), threading.Barrier(2, timeout=WAIT_S)

    def hold() -> None:
        with gpu.share():
            both.wait()

    threads = [started(threading.Thread(target=hold)) for _ in range(2)]
    for thread in threads:
        thread.join(WAIT_S)
    assert not both.broken


def test_one_at_a_time_is_large_and_others_run_beside_it() -> None:
    one, other, order = Gpu(INFO), Gpu(INFO), list[str]()
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with one.large():
            inside.set()
            leave.wait(WAIT_S)
            order.append("first ends")

    def second() -> None:
        with other.large(), other.turn():
            order.append("second")

    threads = [started(threading.Thread(target=first))]
    assert inside.wait(WAIT_S)
    threads.append(started(threading.Thread(target=second)))
    time.sleep(0.1)
    for way in (other.share, other.turn):
        with way():
            order.append("beside")
    leave.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert order == ["beside", "beside", "first ends", "second"]


def test_a_turn_waits_for_shares_and_no_later_share_overtakes_it() -> None:
    gpu, order = Gpu(INFO), list[str]()
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with gpu.share():
            inside.set()
            leave.wait(WAIT_S)
            order.append("first share ends")

    def turn() -> None:
        with gpu.turn(), gpu.share():  # who has the turn has a share too
            order.append("turn")

    def second() -> None:
        with gpu.share():
            order.append("second share")

    threads = [started(threading.Thread(target=first))]
    assert inside.wait(WAIT_S)
    threads.append(started(threading.Thread(target=turn)))
    time.sleep(0.3)  # the turn is at the door now
    threads.append(started(threading.Thread(target=second)))
    time.sleep(0.3)
    assert order == []
    leave.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert order == ["first share ends", "turn", "second share"]


def test_a_build_in_the_middle_of_a_share_lets_others_take_time() -> None:
    gpu, timed = Gpu(INFO), threading.Event()

    def turn() -> None:
        with gpu.turn():
            timed.set()

    with gpu.share():
        thread = started(threading.Thread(target=turn))
        assert not timed.wait(0.3)
        with gpu.away():
            assert timed.wait(WAIT_S)
    thread.join(WAIT_S)


def test_a_turn_holds_between_processes() -> None:
    gpu, got = Gpu(INFO), threading.Event()
    with subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "in\n"

        def share() -> None:
            with gpu.share():
                got.set()

        thread = started(threading.Thread(target=share))
        assert not got.wait(0.5)
        other.stdin.write("\n")
        other.stdin.close()
        assert got.wait(WAIT_S)
        thread.join(WAIT_S)


def _two_cards() -> GpuPool:
    return GpuPool(tuple(GpuInfo(n, f"GPU-{n}", "test", "sm_90", 1024, "580") for n in range(2)))


def test_who_wants_the_card_alone_is_not_kept_out_by_those_who_come_later() -> None:
    pool = _two_cards()
    first, second = pool.take(), pool.take()
    assert {first.info.uuid, second.info.uuid} == {"GPU-0", "GPU-1"}
    got_it = threading.Event()

    def alone() -> None:
        with first.alone():
            got_it.set()

    waiting = threading.Thread(target=alone, daemon=True)
    waiting.start()
    while first.takes_guests:
        time.sleep(0.001)
    # A new one goes to the other card, though this one has as few on it.
    third = pool.take()
    assert third is second
    # Who is on the card may open another worker of his, or he would never end.
    first.enter()
    first.leave()
    assert not got_it.is_set()
    first.leave()
    assert got_it.wait(5.0)
    waiting.join(5.0)
    assert first.takes_guests


def test_who_comes_while_every_card_is_held_alone_waits_for_one() -> None:
    pool = GpuPool((_two_cards().gpus[0].info,))
    (card,) = pool.gpus
    taken: list[Gpu] = []
    with card.alone():
        late = threading.Thread(target=lambda: taken.append(pool.take()), daemon=True)
        late.start()
        late.join(0.2)
        assert taken == []
        card.enter()  # this thread's own candidate
        card.leave()
    late.join(5.0)
    assert taken == [card]


PROGRAM = """
import sys, time
from pathlib import Path
from musaagent.tools.cuda.standalone import DONE, await_turn
folder = Path(sys.argv[1])
while not (folder / "loaded").exists(): time.sleep(0.005)
await_turn(folder)
while not (folder / "measured").exists(): time.sleep(0.005)
(folder / DONE).touch()
while not (folder / "end").exists(): time.sleep(0.005)
"""


def _free(gpu: Gpu) -> bool:
    """Whether another thread gets a share of the card at once."""

    def share() -> None:
        with gpu.share():
            pass

    thread = started(threading.Thread(target=share))
    thread.join(0.3)
    return not thread.is_alive()


def test_a_tool_has_the_card_only_between_loading_and_its_last_call(tmp_path: Path) -> None:
    gpu, folder = Gpu(INFO), tmp_path / "job"
    folder.mkdir()
    with turn_when_ready(gpu, folder):
        program = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)])
        assert _free(gpu), "it is still loading"
        (folder / "loaded").touch()
        end = time.monotonic() + WAIT_S
        while not (folder / "go").exists():
            assert time.monotonic() < end
            time.sleep(0.005)
        assert not _free(gpu), "its turn"
        (folder / "measured").touch()
        while not (folder / "done").exists():
            assert time.monotonic() < end
            time.sleep(0.005)
        assert _free(gpu), "it only has to end"
        (folder / "end").touch()
        assert program.wait(WAIT_S) == 0


def test_a_tool_that_dies_while_it_loads_leaves_the_card_free(tmp_path: Path) -> None:
    gpu = Gpu(INFO)
    with turn_when_ready(gpu, tmp_path):
        subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=False)
    assert _free(gpu)
    for _ in range(4):  # and its place as well
        with turn_when_ready(gpu, tmp_path):
            pass
