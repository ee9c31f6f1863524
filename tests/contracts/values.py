"""Values for options, taken from signatures, so that a new component is tested without an edit here."""

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import torch

from rankgrad import lookup


def parameters(thing: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(thing).parameters)


def default(thing: Callable[..., Any], option: str) -> Any:
    return inspect.signature(thing).parameters[option].default


def required(thing: Callable[..., Any]) -> dict[str, Any]:
    """A value for each option that has no default."""
    return {
        name: other(hint) for name, hint in options(thing).items() if default(thing, name) is inspect.Parameter.empty
    }


def small(thing: Callable[..., Any]) -> dict[str, Any]:
    """Options that make a network small: at most 4 units or layers of a kind, and two pairs of convolutions."""
    values = {}
    for name in options(thing):
        value = default(thing, name)
        if isinstance(value, int) and value > 4:
            values[name] = 4
        elif isinstance(value, tuple):
            values[name] = [4, 8]
    return values


def other(hint: Any, value: Any = None) -> Any:
    """Another value than the default: the next choice, a bool flipped, an odd int (a kernel), half a float."""
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is Literal:
        return next(choice for choice in get_args(hint) if choice != value)
    if hint is bool:
        return not value
    if hint is int:
        return 2 * value + 1 if isinstance(value, int) else 2
    if hint is float:
        return value / 2 if value else 0.5
    if get_origin(hint) is Sequence:
        return [2 * number for number in value or (2, 4)]
    raise AssertionError(f"an option of type {hint}: contracts do not know another value of it")


def changed(thing: Callable[..., Any], option: str) -> Any:
    """Another value of an option than the one that it has in tests."""
    usual = {option: default(thing, option)} | required(thing) | small(thing)
    return other(options(thing)[option], usual[option])


def options(thing: Callable[..., Any]) -> dict[str, Any]:
    """The options but for names and blocks of something else, which has tests of its own."""
    kinds = {name: [hint, *get_args(hint)] for name, hint in lookup.options(thing).items()}
    apart = {name for name, kind in kinds.items() if any(part is str or get_origin(part) is dict for part in kind)}
    return {name: kind[0] for name, kind in kinds.items() if name not in apart}


def numbers_of(folder: str, components: Sequence[str]) -> list[tuple[str, str]]:
    """The options that are numbers, and the lengths of sorters."""
    pairs = []
    for name in components:
        hints = get_type_hints(thing.__init__ if isinstance(thing := lookup.find(folder, name), type) else thing)
        numbers = [one for one, hint in hints.items() if {hint, *get_args(hint)} & {int, float}]
        pairs += [(name, number) for number in numbers if number != "dim"]
    return pairs


def options_of(folder: str, components: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, option) for name in components for option in options(lookup.find(folder, name))]


def check_option(thing: Callable[..., Any], option: str, result: Callable[[dict[str, Any]], torch.Tensor]) -> None:
    """Check that another value of an option changes the result, and that the documentation names the option."""
    assert f"{option}:" in (thing.__doc__ or "") or f"{option}," in thing.__doc__, "it is missing in the documentation"
    others = [{name: changed(thing, name)} for name in options(thing) if name != option]
    for base in ({}, *others):  # an option may count only together with another
        pair = [result(base | extra) for extra in ({}, {option: changed(thing, option)})]
        if pair[0].shape != pair[1].shape or not torch.allclose(*pair):
            return
    raise AssertionError(f"{option} changes nothing")


def check_summary(thing: Callable[..., Any]) -> None:
    """Check the first line of the documentation, which tables show."""
    first = (thing.__doc__ or "").split("\n")[0]
    assert first[:1].isupper() or first[:1].islower(), "it has no documentation"
    assert first.endswith((".", ":")), f"the first line of the documentation is no sentence: {first!r}"


def check_nothing_else_changes(call: Callable[[], Any], *tensors: torch.Tensor) -> Any:
    """Call, and check that the arguments, the random state and the gradient mode are as they were."""
    before, state = [tensor.detach().clone() for tensor in tensors], torch.get_rng_state()
    result = call()
    assert all(old.equal(new.detach()) for old, new in zip(before, tensors, strict=True))
    assert torch.get_rng_state().equal(state)
    assert torch.is_grad_enabled()
    return result
