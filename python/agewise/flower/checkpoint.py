"""What has to be kept of a strategy, in a form that fits into JSON and a Flower `ConfigRecord`."""

import base64
import binascii
from collections.abc import Mapping

from agewise import Selector

#: The form of the state.
STATE_VERSION = 1


def pack(selector: Selector, settings: Mapping[str, int | str]) -> dict[str, int | str]:
    """The state of a selector, with the settings it belongs to."""
    course = base64.b64encode(selector.state()).decode("ascii")
    return {"version": STATE_VERSION, "round": selector.round, **settings, "selector": course}


def unpack(
    state: Mapping[str, object], selector: Selector, settings: Mapping[str, int | str]
) -> Selector:
    """A fresh selector of the same settings, brought to the state.

    ValueError says what does not fit. The selector is of no use then.
    """
    expected = {"version": STATE_VERSION, **settings}
    fields = {*expected, "round", "selector"}
    if not isinstance(state, Mapping) or set(state) != fields:
        found = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise ValueError(f"state = {found}: expected a mapping of {sorted(fields)}")
    for name, value in expected.items():
        if state[name] != value or type(state[name]) is not type(value):
            raise ValueError(f"state({name}) = {state[name]!r}: expected {value!r}")
    course = state["selector"]
    try:
        if not isinstance(course, str):
            raise TypeError(f"a {type(course).__name__}")
        decoded = base64.b64decode(course, validate=True)
    except (TypeError, binascii.Error, ValueError) as error:
        raise ValueError(f"state(selector) = {error}: expected text in base64") from error
    selector.load_state(decoded)
    if state["round"] != selector.round:
        raise ValueError(f"state(round) = {state['round']!r}: expected {selector.round}")
    return selector
