"""The state of a strategy as a mapping that fits into JSON and a Flower `ConfigRecord`."""

import base64
import binascii
from collections.abc import Mapping

from agewise import Selector
from agewise.flower.suspended import SuspendedNodes

#: The format version of the state.
STATE_VERSION = 1


def pack(
    selector: Selector, settings: Mapping[str, int | str], suspended: SuspendedNodes
) -> dict[str, int | str]:
    """The state of a selector, the settings it belongs to, and the failures of nodes."""
    encoded = base64.b64encode(selector.state()).decode("ascii")
    return {
        "version": STATE_VERSION,
        "round": selector.round,
        **settings,
        "selector": encoded,
        "failures": suspended.pack(),
    }


def unpack(
    state: Mapping[str, object],
    selector: Selector,
    settings: Mapping[str, int | str],
    suspended: SuspendedNodes,
    clients: int,
) -> tuple[Selector, SuspendedNodes]:
    """Loads a state into a new selector with the same settings; returns it, and failures of nodes.

    A state of an older version has no failures.

    A state that does not fit is a ValueError. The selector must not be used then.
    """
    expected = {"version": STATE_VERSION, **settings}
    fields = {*expected, "round", "selector", "failures"}
    if not isinstance(state, Mapping) or {*state, "failures"} != fields:
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
    return selector, suspended.unpacked(state.get("failures", "[]"), clients)
