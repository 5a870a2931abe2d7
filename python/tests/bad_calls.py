"""Calls that are refused, and what their messages must not contain."""

import re
from collections.abc import Callable

import pytest

#: Flags of the command, tables of its configuration files, and types of Rust.
FOREIGN = re.compile(
    r"--|\[training\]|\[world\]|training\.|world\.|invalid type|invalid value"
    r"|\b([uif](8|16|32|64)|usize|Vec|Option|String|struct|enum|sequence|boolean)\b(?<!float32)"
)


def refused(call: Callable[[], object], message: str, error: type[Exception] = ValueError) -> str:
    """The message of a call that raises an error, which must speak Python."""
    with pytest.raises(error, match=message) as raised:
        call()
    text = str(raised.value)
    assert not FOREIGN.search(text), text
    return text
