"""Values for options, taken from signatures, so that a new component is tested without an edit here."""

import inspect
import re
import types
from collections.abc import Callable, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import torch

from rankgrad import lookup


def parameters(component: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(component).parameters)


def default(component: Callable[..., Any], option: str) -> Any:
    return inspect.signature(component).parameters[option].default


def required(component: Callable[..., Any]) -> dict[str, Any]:
    """A value for each option that has no default."""
    return {
        name: other(hint)
        for name, hint in options(component).items()
        if default(component, name) is inspect.Parameter.empty
    }


def small(component: Callable[..., Any]) -> dict[str, Any]:
    """Options that make a network small: at most 4 units or layers of a kind, and two pairs of convolutions."""
    values = {}
    for name in options(component):
        value = default(component, name)
        if isinstance(value, int) and value > 4:
            values[name] = 4
        elif isinstance(value, tuple):
            values[name] = [4, 8]
    return values


def other(hint: Any, value: Any = None) -> Any:
    """Another value than the default: the next choice, a bool flipped, an odd int (a kernel), half a float."""
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(choice_ for choice_ in get_args(hint) if choice_ is not type(None))
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


def changed(component: Callable[..., Any], option: str) -> Any:
    """Another value of an option than the one that it has in tests."""
    usual = {option: default(component, option)} | required(component) | small(component)
    return other(options(component)[option], usual[option])


def options(component: Callable[..., Any]) -> dict[str, Any]:
    """The options but for names and blocks of something else, which has tests of its own."""
    kinds = {name: [hint, *get_args(hint)] for name, hint in lookup.options(component).items()}
    result = {}
    for name, kind in kinds.items():
        if str not in kind and dict not in map(get_origin, kind):
            result[name] = kind[0]
    return result


def numbers_of(component: Callable[..., Any]) -> list[str]:
    """The options that are numbers, and the length of a sorter."""
    hints = get_type_hints(component.__init__ if isinstance(component, type) else component)
    return [name for name, hint in hints.items() if name != "dim" and {hint, *get_args(hint)} & {int, float}]


def options_of(folder: str) -> list[tuple[str, str]]:
    """Each component of a folder with each of its options."""
    return [(name, option) for name in lookup.names(folder) for option in options(lookup.find(folder, name))]


def check_option(component: Callable[..., Any], option: str, result: Callable[[dict[str, Any]], torch.Tensor]) -> None:
    """Check that another value of an option changes the result, and that the documentation names the option."""
    assert re.search(f"{option}[:,]", component.__doc__ or ""), "it is missing in the documentation"
    changes = [{name: changed(component, name)} for name in options(component) if name != option]
    for base in ({}, *changes):  # an option may count only together with another
        pair = [result(base | extra) for extra in ({}, {option: changed(component, option)})]
        if pair[0].shape != pair[1].shape or not torch.allclose(*pair):
            return
    raise AssertionError(f"{option} changes nothing")


def check_summary(component: Callable[..., Any]) -> None:
    """Check the first line of the documentation, which tables show."""
    first = (component.__doc__ or "").split("\n")[0]
    assert first[:1].isalpha(), "it has no documentation"
    assert first.endswith((".", ":")), f"the first line of the documentation is no sentence: {first!r}"


def check_nothing_else_changes(call: Callable[[], Any], *tensors: torch.Tensor) -> Any:
    """Call, and check that the arguments, the random state and the gradient mode are as they were."""
    before, state = [tensor.detach().clone() for tensor in tensors], torch.get_rng_state()
    result = call()
    assert all(old.equal(new.detach()) for old, new in zip(before, tensors, strict=True))
    assert torch.get_rng_state().equal(state)
    assert torch.is_grad_enabled()
    return result


def normal(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def gradient(value: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(value.sum(), scores, retain_graph=True)[0]
