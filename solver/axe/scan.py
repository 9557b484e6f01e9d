"""The scanner: lines of the axe format to rows of numbers (axe manual, section 2).

One item a line, blanks between any two tokens, `#` begins a comment anywhere:

    T: M[A] == V          T: { M[A] == V; M[A] := W }      final M[A] == V
    T: M[A] := V          T: sync                          check

with `@ B:E`, `@ B:`, `@ :E` or `@ :` after an operation. `vA` may stand for `M[A]`, `< >` for `{ }`. A
comment after an operation may begin with hints: `# in N was V is @A after @B after @C; ...`.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit

#: Kinds of a row beyond those of an operation (`solver.axe.trace`).
FINAL, CHECK, NAME, IS, AFTER = 4, 5, 6, 7, 8
#: Columns of a row (uint64). A NAME has the first and one past the last byte of its text in READ and
#: WRITTEN. BEGIN and END are one more than the time stamp, 0 where there is none. OLD is the hint `was`, if
#: WAS is 1; PART one more than the hint `in`, 0 where there is none. Rows IS and AFTER follow their
#: operation's and have the number behind '@' in READ.
KIND, THREAD, ADDRESS, READ, WRITTEN, BEGIN, END, LINE, OLD, WAS, PART = range(11)
COLUMNS = 11
#: Most rows IS and AFTER of one operation; what is said beyond them is a comment.
MOST_TIES = 256

_LOAD, _STORE, _RMW, _SYNC = 0, 1, 2, 3
_BLANKS = (32, 9, 13, 11, 12)
_TEN = np.uint64(10)
_TENTH = np.uint64((1 << 64) // 10)

_CHECK, _FINAL, _SYNC_WORD, _IN, _WAS, _IS, _AFTER = (
    np.frombuffer(word, np.uint8)
    for word in (b"check", b"final", b"sync", b"in ", b"was ", b"is @", b"after @")
)
#: Which hint a word begins.
_NO_HINT, _IN_HINT, _WAS_HINT, _IS_HINT, _AFTER_HINT = range(5)

#: What was expected, by the code that `scan` gives.
EXPECTED = (
    "",
    "an operation (T: ...), 'final', 'check' or a comment",
    "':' after the thread",
    "M[ADDRESS], '{' or 'sync'",
    "a number",
    "a number below 2**64",
    "']'",
    "'==' or ':='",
    "'=='",
    "';'",
    "the same address as before ';'",
    "':='",
    "'}' ('>' if it began with '<')",
    "':' in a time stamp",
    "the end of the line, or '@' and time stamps",
    "the end of the line",
    "a location M[ADDRESS]",
    "a time stamp below 2**63",
)
_ITEM, _COLON, _BODY, _NUMBER, _BIG, _BRACKET, _RELATION, _EQUALS, _SEMICOLON = range(1, 10)
_SAME, _ASSIGN, _BRACE, _STAMP, _END_OR_STAMP, _END_OF_LINE, _LOCATION, _BIG_STAMP = range(10, 18)


@njit(cache=True)
def skip(buf, i, end):  # type: ignore[no-untyped-def]
    """The first byte from i on that is not a blank."""
    while i < end and buf[i] in _BLANKS:
        i += 1
    return i


@njit(cache=True)
def at(buf, i, end, char):  # type: ignore[no-untyped-def]
    """Whether a character stands at i."""
    return i < end and buf[i] == char


@njit(cache=True)
def number(buf, i, end):  # type: ignore[no-untyped-def]
    """(value, position after it, 0 or what is wrong) of a decimal number."""
    value, start = np.uint64(0), i
    while i < end and 48 <= buf[i] <= 57:
        digit = np.uint64(buf[i] - 48)
        if value > _TENTH or (value == _TENTH and digit > np.uint64(5)):
            return value, start, _BIG
        value = value * _TEN + digit
        i += 1
    return value, i, _NUMBER if i == start else 0


@njit(cache=True)
def location(buf, i, end):  # type: ignore[no-untyped-def]
    """(address, position after it, 0 or what is wrong) of M[A] or vA."""
    if at(buf, i, end, 118):
        return number(buf, i + 1, end)
    if not at(buf, i, end, 77):
        return np.uint64(0), i, _LOCATION
    i = skip(buf, i + 1, end)
    if not at(buf, i, end, 91):
        return np.uint64(0), i, _LOCATION
    value, i, wrong = number(buf, skip(buf, i + 1, end), end)
    if wrong:
        return value, i, wrong
    i = skip(buf, i, end)
    if not at(buf, i, end, 93):
        return value, i, _BRACKET
    return value, i + 1, 0


@njit(cache=True)
def relation(buf, i, end):  # type: ignore[no-untyped-def]
    """The first character of '==' or ':=' at i, else 0."""
    if i + 1 < end and (buf[i] == 61 or buf[i] == 58) and buf[i + 1] == 61:
        return np.int64(buf[i])
    return np.int64(0)


@njit(cache=True)
def word(buf, i, end, text):  # type: ignore[no-untyped-def]
    """Whether a word stands at i."""
    if i + text.size > end:
        return False
    for j in range(text.size):  # noqa: SIM110
        if buf[i + j] != text[j]:
            return False
    return True


@njit(cache=True)
def scan_atomic(buf, i, end, row):  # type: ignore[no-untyped-def]
    """(position, 0 or what is wrong) after { M[A] == V; M[A] := W }, of which '{' or '<' is at i."""
    closing = 125 if buf[i] == 123 else 62
    row[KIND] = _RMW
    row[ADDRESS], i, wrong = location(buf, skip(buf, i + 1, end), end)
    if wrong:
        return i, wrong
    i = skip(buf, i, end)
    if relation(buf, i, end) != 61:
        return i, _EQUALS
    row[READ], i, wrong = number(buf, skip(buf, i + 2, end), end)
    if wrong:
        return i, wrong
    i = skip(buf, i, end)
    if not at(buf, i, end, 59):
        return i, _SEMICOLON
    start = skip(buf, i + 1, end)
    second, i, wrong = location(buf, start, end)
    if wrong:
        return i, wrong
    if second != row[ADDRESS]:
        return start, _SAME
    i = skip(buf, i, end)
    if relation(buf, i, end) != 58:
        return i, _ASSIGN
    row[WRITTEN], i, wrong = number(buf, skip(buf, i + 2, end), end)
    if wrong:
        return i, wrong
    i = skip(buf, i, end)
    if not at(buf, i, end, closing):
        return i, _BRACE
    return i + 1, 0


@njit(cache=True)
def scan_access(buf, i, end, row):  # type: ignore[no-untyped-def]
    """(position, 0 or what is wrong) after M[A] == V or M[A] := V at i."""
    row[ADDRESS], i, wrong = location(buf, i, end)
    if wrong:
        return i, _BODY if wrong == _LOCATION else wrong
    i = skip(buf, i, end)
    which = relation(buf, i, end)
    if which == 0:
        return i, _RELATION
    row[KIND] = _LOAD if which == 61 else _STORE
    value, i, wrong = number(buf, skip(buf, i + 2, end), end)
    row[READ if which == 61 else WRITTEN] = value
    return i, wrong


@njit(cache=True)
def scan_stamp(buf, i, end, row, column):  # type: ignore[no-untyped-def]
    """(position, 0 or what is wrong) after an optional number at i."""
    if i < end and 48 <= buf[i] <= 57:
        value, after, wrong = number(buf, i, end)
        if wrong or value >> np.uint64(63):
            return i, _BIG_STAMP
        row[column] = value + np.uint64(1)
        return after, 0
    return i, 0


@njit(cache=True)
def scan_operation(buf, i, end, row):  # type: ignore[no-untyped-def]
    """(position, 0 or what is wrong) after an operation at i; its row is filled in."""
    row[THREAD], i, wrong = number(buf, i, end)
    if wrong:
        return i, wrong
    i = skip(buf, i, end)
    if not at(buf, i, end, 58):
        return i, _COLON
    i = skip(buf, i + 1, end)
    if at(buf, i, end, 123) or at(buf, i, end, 60):
        i, wrong = scan_atomic(buf, i, end, row)
    elif word(buf, i, end, _SYNC_WORD):
        row[KIND] = _SYNC
        i += _SYNC_WORD.size
    else:
        i, wrong = scan_access(buf, i, end, row)
    if wrong:
        return i, wrong
    i = skip(buf, i, end)
    if not at(buf, i, end, 64):
        return i, 0 if i == end or buf[i] == 35 else _END_OR_STAMP
    i, wrong = scan_stamp(buf, skip(buf, i + 1, end), end, row, BEGIN)
    if wrong:
        return i, wrong
    i = skip(buf, i, end)
    if not at(buf, i, end, 58):
        return i, _STAMP
    return scan_stamp(buf, skip(buf, i + 1, end), end, row, END)


@njit(cache=True)
def which_hint(buf, i, end):  # type: ignore[no-untyped-def]
    """(hint, where its number begins) of the word at i."""
    if word(buf, i, end, _IN):
        return _IN_HINT, skip(buf, i + _IN.size, end)
    if word(buf, i, end, _WAS):
        return _WAS_HINT, skip(buf, i + _WAS.size, end)
    if word(buf, i, end, _IS):
        return _IS_HINT, i + _IS.size
    if word(buf, i, end, _AFTER):
        return _AFTER_HINT, i + _AFTER.size
    return _NO_HINT, i


@njit(cache=True)
def scan_hints(buf, i, end, rows, at):  # type: ignore[no-untyped-def]
    """Note the hints at the beginning of a comment, of which '#' is at i, in row `at`, and in rows IS and
    AFTER behind it; returns how many those are. What is no hint ends them."""
    i, row, ties = skip(buf, i + 1, end), rows[at], 0
    while True:
        hint, i = which_hint(buf, i, end)
        if hint == _NO_HINT:
            return ties
        value, i, wrong = number(buf, i, end)
        if wrong or (i < end and buf[i] not in _BLANKS and buf[i] != 59):
            return ties
        if hint == _WAS_HINT:
            row[OLD], row[WAS] = value, np.uint64(1)
        elif hint == _IN_HINT:
            if value >> np.uint64(31) == 0:
                row[PART] = value + np.uint64(1)
        elif ties == MOST_TIES:
            return ties
        else:
            ties += 1
            rows[at + ties, :] = np.uint64(0)
            rows[at + ties, KIND] = np.uint64(IS if hint == _IS_HINT else AFTER)
            rows[at + ties, READ], rows[at + ties, LINE] = value, row[LINE]
        i = skip(buf, i, end)


@njit(cache=True)
def scan_line(buf, i, end, row):  # type: ignore[no-untyped-def]
    """(position, 0 or what is wrong) after the item at i, which is not a blank; before its comment."""
    if 48 <= buf[i] <= 57:
        i, wrong = scan_operation(buf, i, end, row)
    elif word(buf, i, end, _CHECK):
        row[KIND] = CHECK
        i, wrong = i + _CHECK.size, 0
    elif word(buf, i, end, _FINAL):
        row[KIND] = FINAL
        row[ADDRESS], i, wrong = location(buf, skip(buf, i + _FINAL.size, end), end)
        if not wrong:
            i = skip(buf, i, end)
            if relation(buf, i, end) != 61:
                return i, _EQUALS
            row[READ], i, wrong = number(buf, skip(buf, i + 2, end), end)
    else:
        return i, _ITEM
    if wrong:
        return i, wrong
    i = skip(buf, i, end)
    return i, 0 if i == end or buf[i] == 35 else _END_OF_LINE


#: Where a scan is: the next byte, its line number, whether the trace has its name or its first item.
NEXT_BYTE, LINE_NUMBER, BEGUN = range(3)


@njit(cache=True)
def scan(buf, rows, state, hints):  # type: ignore[no-untyped-def]
    """Scan whole lines until `buf` is used up or `rows` might be.

    buf: uint8, ends with a newline. rows: uint64 (n > MOST_TIES, COLUMNS). state: int64 (3,), see NEXT_BYTE;
    updated. hints: whether comments may have any.
    Returns (rows filled, where, what): `where` is the byte at which EXPECTED[what] was expected, if what > 0.
    """
    filled = 0
    while state[NEXT_BYTE] < buf.size and filled < rows.shape[0] - MOST_TIES:
        start = state[NEXT_BYTE]
        end = start
        while buf[end] != 10:
            end += 1
        i = skip(buf, start, end)
        row = rows[filled]
        if i < end and (buf[i] != 35 or not state[BEGUN]):
            row[:] = np.uint64(0)
            row[LINE] = np.uint64(state[LINE_NUMBER])
            if buf[i] == 35:
                row[KIND] = NAME
                row[READ], row[WRITTEN] = np.uint64(i + 1), np.uint64(end)
                state[BEGUN] = 1
            else:
                i, wrong = scan_line(buf, i, end, row)
                if wrong:
                    return filled, i, wrong
                state[BEGUN] = row[KIND] != np.uint64(CHECK)
                if hints and i < end and row[KIND] < np.uint64(FINAL):
                    filled += scan_hints(buf, i, end, rows, filled)
            filled += 1
        state[NEXT_BYTE] = end + 1
        state[LINE_NUMBER] += 1
    return filled, 0, 0
