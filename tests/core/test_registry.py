"""Messages of the catalog for parts that cannot be registered."""

import pytest

from weft.core.contracts import Norm
from weft.core.registry import block


def test_an_option_without_a_type_is_refused_with_an_example() -> None:
    class Untyped(Norm):
        def __init__(self, dim: int, *, eps=1e-5):
            super().__init__(dim)

    with pytest.raises(TypeError, match=r"^Untyped: option 'eps' has no type; annotate it, for example eps: float = 0\.1$"):
        block("untyped")(Untyped)
