"""The axe format: every construct, every error with its line, pieces of any size."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from bench.axe_traces import Shape, random_ops, to_text, to_trace
from corebraid.base.errors import FormatError
from solver.axe import text
from solver.axe.text import read_traces
from solver.axe.trace import LOAD, RMW, STORE, SYNC, Trace


def parse(tmp_path: Path, content: str | bytes) -> list[Trace]:
    """The traces of a file with this content."""
    path = tmp_path / "t.axe"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_traces(path))


def test_every_construct(tmp_path: Path) -> None:
    (trace,) = parse(
        tmp_path,
        "# a name \n\n7: M[5] := 1\n  7 : M[ 4294967296 ]==18446744073709551615 # comment\n7: sync @ 9 :\n"
        "12: { M[5] == 1 ; M[5] := 2 } @ 3:4\n12:<v5==2;M[5]:=0>@ :8\n12: v4294967296 := 6 @:\n"
        "\tfinal M[5] == 0\r\nfinal v9 == 1 # end\n 7: M[5] == 2 @ 100 : 110\n",
    )
    assert (trace.name, trace.line) == ("a name", 3)
    assert trace.threads.tolist() == [7, 12]
    assert trace.addresses.tolist() == [5, 9, 1 << 32]
    assert trace.thread.tolist() == [0, 0, 0, 1, 1, 1, 0]
    assert trace.kind.tolist() == [STORE, LOAD, SYNC, RMW, RMW, STORE, LOAD]
    assert trace.address.tolist() == [0, 2, -1, 0, 0, 2, 0]
    assert trace.read.tolist() == [0, (1 << 64) - 1, 0, 1, 2, 0, 2]
    assert trace.written.tolist() == [1, 0, 0, 2, 0, 6, 0]
    assert trace.begin.tolist() == [-1, -1, 9, 3, -1, -1, 100]
    assert trace.end.tolist() == [-1, -1, -1, 4, 8, -1, 110]
    assert trace.lines.tolist() == [3, 4, 5, 6, 7, 8, 11]
    assert trace.final_address.tolist() == [0, 1]
    assert trace.final_value.tolist() == [0, 1]
    assert trace.final_lines.tolist() == [9, 10]
    assert trace.op_text(3) == "12: { M[5] == 1; M[5] := 2 }"
    assert trace.op_text(2) == "7: sync"
    assert trace.final_text(1) == "final M[9] == 1"


def test_traces_end_with_check_or_the_file(tmp_path: Path) -> None:
    traces = parse(
        tmp_path, "# one\n# more\n0: M[0] := 1\n# inside\ncheck\n0: M[0] == 0\ncheck # x\n#three\ncheck"
    )
    assert [(t.name, t.n_ops, t.line) for t in traces] == [("one", 1, 3), ("", 1, 6), ("three", 0, 9)]
    assert [t.n_ops for t in parse(tmp_path, "0: sync\ncheck\n0: sync\n0: sync")] == [1, 2]
    assert [t.n_ops for t in parse(tmp_path, "0: sync\ncheck\n\n# the end\n")] == [1]


@pytest.mark.parametrize(
    ("line", "expected", "found"),
    [
        ("x", "an operation", "'x'"),
        ("0 M[1] := 1", "':' after the thread", "'M[1] := 1'"),
        ("0: N[1] := 1", "M[ADDRESS], '{' or 'sync'", "'N[1] := 1'"),
        ("0:", "M[ADDRESS], '{' or 'sync'", "the end of the line"),
        ("0: M[] := 1", "a number", "'] := 1'"),
        ("0: M[1 := 1", "']'", "':= 1'"),
        ("0: M[1] = 1", "'==' or ':='", "'= 1'"),
        ("0: M[1] := -1", "a number", "'-1'"),
        ("0: M[1] := 18446744073709551616", "below 2**64", "'18446744073709551616'"),
        ("0: M[1] := 1 2", "the end of the line, or '@'", "'2'"),
        ("0: M[1] := 1 @ 5", "':' in a time stamp", "the end of the line"),
        ("0: M[1] := 1 @ 5 : 6 7", "the end of the line", "'7'"),
        ("0: M[1] := 1 @ 9223372036854775808:", "below 2**63", "'9223372036854775808:'"),
        ("0: { M[1] == 1; M[2] := 2 }", "the same address", "'M[2] := 2 }'"),
        ("0: { M[1] := 1; M[1] := 2 }", "'=='", "':= 1; M[1] := 2 }'"),
        ("0: { M[1] == 1, M[1] := 2 }", "';'", "', M[1] := 2 }'"),
        ("0: { M[1] == 1; M[1] == 2 }", "':='", "'== 2 }'"),
        ("0: < M[1] == 1; M[1] := 2 }", "'}' ('>' if it began with '<')", "'}'"),
        ("0: { 5 == 1; M[1] := 2 }", "a location M[ADDRESS]", "'5 == 1; M[1] := 2 }'"),
        ("final M[1] := 1", "'=='", "':= 1'"),
        ("final 1 == 1", "a location M[ADDRESS]", "'1 == 1'"),
        ("check 1", "the end of the line", "'1'"),
        ("0: M[1] := 1 0: M[1] := 2", "the end of the line, or '@'", "'0: M[1] := 2'"),
    ],
)
def test_a_line_that_cannot_be_read(tmp_path: Path, line: str, expected: str, found: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse(tmp_path, f"# name\n0: M[1] := 1\n{line}\n0: sync\n")
    error = caught.value
    assert error.where == f"{tmp_path / 't.axe'}:3"
    assert str(error.expected).startswith(expected) or expected in str(error.expected)
    assert error.found == found


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "no trace"),
        (b"\n# only a name\n", "no trace"),
        (b"\x00\xff\x7fELF" * 100, "not a line"),
        (b"\n".join(b"%d: sync" % t for t in range(65)), "more than 64 threads"),
        (b"#" + b"x" * (10 << 20), "does not end"),
    ],
)
def test_not_a_file_of_traces(tmp_path: Path, content: bytes, part: str) -> None:
    with pytest.raises(FormatError, match=part):
        parse(tmp_path, content)


def test_the_line_of_the_65th_thread(tmp_path: Path) -> None:
    lines = [f"{t % 64}: sync" for t in range(200)] + ["999: sync", "1000: sync"]
    with pytest.raises(FormatError) as caught:
        parse(tmp_path, "\n".join(lines))
    assert (caught.value.where or "").endswith(":201")
    assert len(parse(tmp_path, "\n".join(lines[:200]))[0].threads) == 64


def test_no_such_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(FormatError, match="cannot be read"):
            list(read_traces(path))


def test_pieces_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and tables of rows that end anywhere give the same traces."""
    rng = random.Random(3)
    cases = [random_ops(Shape(3, 4, rng.randrange(1, 40), values=5), rng) for _ in range(60)]
    content = "".join(to_text(*case, name=f"number {i}") for i, case in enumerate(cases))
    for chunk, rows in ((37, 1), (64, 3), (1000, 7), (1 << 22, 1 << 16)):
        monkeypatch.setattr(text, "_CHUNK", chunk)
        monkeypatch.setattr(text, "_ROWS", rows)
        traces = parse(tmp_path, content)
        assert len(traces) == len(cases)
        line = 2
        for i, (case, trace) in enumerate(zip(cases, traces, strict=True)):
            expected = to_trace(*case)
            assert trace.name == f"number {i}"
            assert trace.line == line
            for column in ("thread", "kind", "address", "read", "written", "final_address", "final_value"):
                assert getattr(trace, column).tolist() == getattr(expected, column).tolist()
            line += len(case[0]) + len(case[1]) + 2


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "open", lambda *_args, **_more: io.BytesIO(b"0: sync"), raising=False)
    assert [trace.n_ops for trace in read_traces(Path("-"))] == [1]
