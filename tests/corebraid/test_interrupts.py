"""A Ctrl-C that arrives where Python drops exceptions still ends the command."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from cli_factory import ROOT

from corebraid import __main__ as command_line
from corebraid.base.interrupts import answer_interrupts, interrupting, interrupts_heard

_LONG_S = 20


@pytest.fixture(autouse=True)
def _not_ignored() -> Iterator[None]:
    """A shell starts what runs in the background with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    ends = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for one, handler in {signal.SIGINT: before, **ends}.items():
        signal.signal(one, handler)


class _Finalised:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)
        sum(range(10))


def _in_a_finaliser() -> None:
    _Finalised()


def _in_a_callback_from_c() -> None:
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()


@pytest.mark.parametrize("arrives", [_in_a_finaliser, _in_a_callback_from_c])
def test_a_dropped_interrupt_is_raised_again(arrives: Callable[[], None]) -> None:
    reached = False

    def go_on() -> None:
        nonlocal reached
        with interrupts_heard():
            arrives()
            reached = True
            time.sleep(_LONG_S)

    with pytest.raises(KeyboardInterrupt):
        go_on()
    assert reached, "Python does not drop it here any more"


_FETCH = "def fetch():\n    signal.raise_signal(number)\n    reached.append(True)\n"


def _arrives_in(module: str, number: signal.Signals) -> list[bool]:
    """A signal arrives in a function of this module; whether the function went on."""
    scope = {"__name__": module, "signal": signal, "number": number, "reached": []}
    exec(_FETCH, scope)
    with interrupts_heard():
        ctypes.CFUNCTYPE(None)(scope["fetch"])()
        if not scope["reached"]:
            return []
        time.sleep(_LONG_S)
    return scope["reached"]


@pytest.mark.parametrize(
    "module", ["llvmlite.binding.executionengine", "numba.core.codegen", "numba.core.caching"]
)
def test_what_native_code_waits_for_is_not_interrupted(module: str) -> None:
    """LLVM would go on without what it asked for."""
    answer_interrupts()
    with pytest.raises(KeyboardInterrupt):
        _arrives_in(module, signal.SIGINT)


def test_other_signals_wait_as_long_and_keep_their_line() -> None:
    before = signal.signal(signal.SIGTERM, interrupting("ended"))
    try:
        with pytest.raises(KeyboardInterrupt, match=r"^ended$"):
            _arrives_in("numba.core.codegen", signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_dropped_exceptions_are_shown_as_before() -> None:
    class Broken:
        def __del__(self) -> None:
            raise ValueError("broken")

    shown: list[BaseException | None] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda dropped: shown.append(dropped.exc_value)
    try:
        with interrupts_heard():
            Broken()
    finally:
        sys.unraisablehook = before
    assert [str(error) for error in shown] == ["broken"]


def test_everything_is_put_back() -> None:
    hook, handler = sys.unraisablehook, signal.getsignal(signal.SIGALRM)
    with interrupts_heard():
        assert sys.unraisablehook is not hook
    assert sys.unraisablehook is hook
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_while_modules_are_loading(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def arrive() -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("corebraid.base.kernel_cache.use_kernel_cache", arrive)
    assert _code_without_teardown(monkeypatch) == 130
    assert capsys.readouterr().err == "corebraid: interrupted\n"


class _Arrives:
    """A finder of modules: Ctrl-C while one of this name is looked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, *_: object) -> None:
        if name == self._name:
            signal.raise_signal(signal.SIGINT)


def test_while_what_answers_it_is_loading(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def leave(code: int) -> None:
        raise _Left(code)

    monkeypatch.setattr("os._exit", leave)
    monkeypatch.delitem(sys.modules, "corebraid.base.interrupts")
    monkeypatch.setattr(sys, "meta_path", [_Arrives("corebraid.base.interrupts"), *sys.meta_path])
    with pytest.raises(_Left, match="130"):
        command_line.main()
    assert capfd.readouterr().err == "corebraid: interrupted\n"


def test_little_is_loaded_before_it_is_answered() -> None:
    """Until then it is a traceback."""
    code = "import os, sys; old = {*sys.modules}; import corebraid.__main__; print(*{*sys.modules} - old)"
    command = [sys.executable, "-S", "-c", code]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) <= {"corebraid", "corebraid.__main__", "__future__", "gc"}


class _Named:
    def __set_name__(self, *_: object) -> None:
        signal.raise_signal(signal.SIGINT)


def _make_class() -> None:
    type("Made", (), {"named": _Named()})


def test_while_a_class_is_made(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Python 3.11 raises RuntimeError then."""
    monkeypatch.setattr(command_line, "_run", _make_class)
    assert _code_without_teardown(monkeypatch) == 130
    assert capsys.readouterr().err == "corebraid: interrupted\n"


def test_while_native_code_imports_a_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It makes an ImportError of what is raised, which does not say what it comes of."""

    def arrive() -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise ImportError("numba._devicearray failed to import")

    monkeypatch.setattr(command_line, "_run", arrive)
    assert _code_without_teardown(monkeypatch) == 130
    assert capsys.readouterr().err == "corebraid: interrupted\n"


def test_what_did_not_come_of_an_interrupt_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        try:
            raise KeyError
        except KeyError as error:
            raise ValueError("broken") from error

    monkeypatch.setattr(command_line, "_run", broken)
    with pytest.raises(ValueError, match="broken"):
        command_line.main()


def test_an_interrupted_command_leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second Ctrl-C, or modules that were half loaded, would make a crash of Python's own end."""

    monkeypatch.setattr(command_line, "_run", lambda: 130)
    assert _code_without_teardown(monkeypatch) == 130


def test_a_second_one_while_the_first_is_dealt_with(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def arrive(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("corebraid.cli.group.interrupts_heard", arrive)
    monkeypatch.setattr("corebraid.cli.group.interrupts_told", arrive)
    monkeypatch.setattr(sys, "argv", ["corebraid", "info", "nowhere"])
    assert _code_without_teardown(monkeypatch) == 130
    # What a handler says goes past Python's buffers.
    assert capfd.readouterr().err == "corebraid: interrupted\n"


def test_what_an_interrupt_left_half_made_is_nobodys_news(monkeypatch: pytest.MonkeyPatch) -> None:
    class HalfMade:
        def __init__(self) -> None:
            signal.raise_signal(signal.SIGINT)
            self.made = True

        def __del__(self) -> None:
            assert self.made

    shown: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: shown.append(dropped.exc_value))
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        answer_interrupts()
        with interrupts_heard(), suppress(KeyboardInterrupt):
            HalfMade()
        assert not shown
    finally:
        signal.signal(signal.SIGINT, before)


def test_who_was_told_to_ignore_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        answer_interrupts()
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


class _Left(BaseException):
    pass


def _code_without_teardown(monkeypatch: pytest.MonkeyPatch) -> int:
    codes: list[int] = []

    def leave(code: int) -> None:
        # A second one does nothing any more.
        signal.raise_signal(signal.SIGINT)
        codes.append(code)
        raise _Left

    monkeypatch.setattr("os._exit", leave)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(_Left):
            command_line.main()
    finally:
        signal.signal(signal.SIGINT, before)
    return codes[0]
