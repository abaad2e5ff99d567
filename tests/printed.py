"""Compare what an example prints with what the documentation says it prints."""

import re

import pytest


def says_the_same(got: str, printed: str, rel: float = 0.1, near: float = 0.05) -> bool:
    """Compare texts; numbers may differ by a tenth, since a trained model differs between kinds of machines."""
    number = r"-?\d+\.?\d*"
    words = [re.sub(r" +", " ", re.sub(number, "#", text)) for text in (got, printed)]
    values = [[float(x) for x in re.findall(number, text)] for text in (got, printed)]
    return words[0] == words[1] and values[0] == pytest.approx(values[1], rel=rel, abs=near)
