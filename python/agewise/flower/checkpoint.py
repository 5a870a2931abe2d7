"""The state of a strategy as a mapping that fits into JSON and a Flower `ConfigRecord`."""

import base64
import binascii
from collections.abc import Mapping

from agewise import Selector

#: The format version of the state.
STATE_VERSION = 1


def pack(selector: Selector, settings: Mapping[str, int | str]) -> dict[str, int | str]:
    """The state of a selector and the settings it belongs to."""
    encoded = base64.b64encode(selector.state()).decode("ascii")
    return {"version": STATE_VERSION, "round": selector.round, **settings, "selector": encoded}


def unpack(
    state: Mapping[str, object], selector: Selector, settings: Mapping[str, int | str]
) -> Selector:
    """Loads a state into a new selector with the same settings, and returns it.

    A state that does not fit is a ValueError. The selector must not be used then.
    """
    expected = {"version": STATE_VERSION, **settings}
    fields = {*expected, "round", "selector"}
    if not isinstance(state, Mapping) or set(state) != fields:
        found = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise ValueError(f"state = {found}: expected a mapping of {sorted(fields)}")
    for name, value in expected.items():
        if state[name] != value or type(state[name]) is not type(value):
            raise ValueError(f"state({name}) = {state[name]!r}: expected {value!r}")
    encoded = state["selector"]
    try:
        if not isinstance(encoded, str):
            raise TypeError(f"a {type(encoded).__name__}")
        decoded = base64.b64decode(encoded, validate=True)
    except (TypeError, binascii.Error, ValueError) as error:
        raise ValueError(f"state(selector) = {error}: expected a base64 string") from error
    selector.load_state(decoded)
    if state["round"] != selector.round:
        raise ValueError(f"state(round) = {state['round']!r}: expected {selector.round}")
    return selector
