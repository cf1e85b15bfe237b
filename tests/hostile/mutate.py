"""Damage to files: what bit rot, cut transfers and bad intentions do to them."""

import numpy as np

#: Numbers that programs stumble over.
NUMBERS = [b"-1", b"0", b"1e999", b"nan", b"inf", b"1000000000000", b"4294967296", b"1e-320", b""]

#: Bytes that mean something to some format.
TOKENS = [
    b"\x00",
    b"\xff\xff\xff\xff",
    b"\n",
    b"\r\n",
    b",",
    b'"',
    b":",
    b"#",
    b"=",
    b"[",
    b"]",
    b"\xef\xbb\xbf",
]


def damaged(raw: bytes, rng: np.random.Generator) -> bytes:
    """Return `raw` with one to four changes."""
    out = bytearray(raw)
    for _ in range(int(rng.integers(1, 5))):
        out = _CHANGES[int(rng.integers(len(_CHANGES)))](out, rng)
    return bytes(out)


def _place(out, rng):
    return int(rng.integers(len(out) + 1))


def _flip_bits(out, rng):
    for _ in range(int(rng.integers(1, 9)) if out else 0):
        out[int(rng.integers(len(out)))] ^= 1 << int(rng.integers(8))
    return out


def _cut(out, rng):
    return out[: _place(out, rng)]


def _drop(out, rng):
    low = _place(out, rng)
    del out[low : low + int(rng.integers(1, 64))]
    return out


def _repeat(out, rng):
    low, place = _place(out, rng), _place(out, rng)
    out[place:place] = out[low : low + int(rng.integers(1, 256))]
    return out


def _write_over(out, rng):
    place, size = _place(out, rng), int(rng.integers(1, 9))
    out[place : place + size] = rng.bytes(size)
    return out


def _insert_token(out, rng):
    place = _place(out, rng)
    out[place:place] = TOKENS[int(rng.integers(len(TOKENS)))]
    return out


def _replace_number(out, rng):
    """Put another number where there is one in text."""
    digits = [i for i in range(len(out)) if 48 <= out[i] <= 57]
    if not digits:
        return out
    low = high = digits[int(rng.integers(len(digits)))]
    while high < len(out) and 48 <= out[high] <= 57:
        high += 1
    out[low:high] = NUMBERS[int(rng.integers(len(NUMBERS)))]
    return out


def _large_field(out, rng):
    """Make a 4- or 8-byte field huge, as sizes in binary headers are."""
    if len(out) < 8:
        return out
    size = 4 if rng.random() < 0.5 else 8
    place = int(rng.integers(len(out) - size + 1))
    value = int(rng.choice([2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1])) % (1 << 8 * size)
    out[place : place + size] = value.to_bytes(size, "little")
    return out


_CHANGES = [
    _flip_bits,
    _cut,
    _drop,
    _repeat,
    _write_over,
    _insert_token,
    _replace_number,
    _large_field,
]
