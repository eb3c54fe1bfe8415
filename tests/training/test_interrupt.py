"""Stop requests: the first signal finishes the step, the second interrupts."""

from __future__ import annotations

import signal
import threading

import pytest

from weft.training.display import Display
from weft.training.interrupt import StopRequest


class Messages(Display):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_requests_a_stop_and_the_second_interrupts(number):
    display = Messages()
    stop = StopRequest(display)
    with stop.on_signals():
        assert not stop.requested
        signal.raise_signal(number)
        assert stop.requested and "saving a checkpoint" in display.lines[0]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_the_handlers_from_before_are_restored_even_after_an_error():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ZeroDivisionError), StopRequest(Messages()).on_signals():
        assert signal.getsignal(signal.SIGINT) is not before[0]
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_with_several_processes_a_repeated_signal_is_not_a_second_request():
    stop = StopRequest(Messages(), several=True)
    with stop.on_signals():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert stop.requested


def test_a_signal_in_the_middle_of_a_message_still_requests_a_stop():
    class Reentrant(Display):
        def message(self, text: str) -> None:
            raise RuntimeError("reentrant call")

    stop = StopRequest(Reentrant())
    with stop.on_signals():
        signal.raise_signal(signal.SIGINT)
    assert stop.requested


def test_signals_are_left_alone_outside_the_main_thread():
    before, inside = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with StopRequest(Messages()).on_signals():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [before]
