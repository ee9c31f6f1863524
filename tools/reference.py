"""Write the reference in docs/api from the docstrings: `python -m tools.reference`.

The code is parsed but not imported, so `make docs` needs no PyTorch. The table of losses takes times from
docs/losses.md, vmap support from the contract tests, and papers from docs/bibliography.md.
"""

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

import griffe

FOLDER = Path("docs/api")
BIBLIOGRAPHY, TIMES = Path("docs/bibliography.md"), Path("docs/losses.md")
CONTRACTS = Path("tests/contracts/test_measures.py")
WRITING = ("groups", "soft_ranks", "reduced")  # the functions for writing a loss
OTHER = ("ranks", "ragged", "io.checkpoints", "training.large_batch", "training.distributed")
# The shape of scores and truth, by the name of the truth.
SHAPES = {"target": "(..., d)", "labels": "(..., d)", "label_ranks": "(..., d)", "positives": "(..., n, m)"}
PROPERTIES = (
    "loss", "truth", "shape", "sorter", "dim", "weights", "ms, 10,000", "MB, 10,000", "growth", "second derivative",
    "vmap, compile", "papers",
)  # fmt: skip
ABOUT_PROPERTIES = f"""\
Milliseconds and megabytes, forward and backward, are of one list of 10,000 on one CPU thread. Growth is the exponent of
its length in the time ([all lengths](../{TIMES.name})). Every loss takes `mask` and `group_weights`. The losses marked
with half a million pairs sum more pairs than that in blocks: they then have first derivatives only and do not run
under `vmap`.
"""

EQUATION = re.compile(r"\$([^$`]+)\$")
EXAMPLE = re.compile(r"\n\n(?=>>> )")
RETURNS = re.compile(r"^Returns:\n((?:    .+\n?|\n(?=    ))+)", re.MULTILINE)  # griffe would split it at colons
TITLES = {
    griffe.DocstringSectionKind.parameters: "Arguments",
    griffe.DocstringSectionKind.attributes: "Attributes",
    griffe.DocstringSectionKind.raises: "Raises",
}


def pages() -> dict[Path, str]:
    """Return the text of each page of the reference, by path."""
    package = griffe.load("rankgrad", search_paths=["src"])
    losses = _exported(package["losses"])
    texts = {FOLDER / "losses.md": _overview(package["losses"], losses)}
    for name, loss in losses.items():
        texts[FOLDER / f"losses/{name}.md"] = _component(loss, package["losses"], level=1)
    for folder in ("metrics", "sorters"):
        texts[FOLDER / f"{folder}.md"] = _module(package[folder], level=1)
    others = [_module(package[name], level=2) for name in OTHER]
    texts[FOLDER / "other.md"] = "\n".join(["# Other modules\n", *others])
    return {path: _head(path) + _with_links(text, path.parent) for path, text in texts.items()}


def _head(path: Path) -> str:
    source = "" if path.stem == "other" else f"/{path.relative_to(FOLDER).with_suffix('')}"
    return f"<!-- Written by `make docs` from the docstrings of src/rankgrad{source}: edit those. -->\n\n"


def _exported(module: Any) -> dict[str, Any]:
    """Return the public functions and classes of a module by name, in alphabetical order."""
    components = {}
    for name in sorted(map(str, module.exports or ()), key=str.lower):
        component = _imported(module, name)
        if component.docstring:
            components[name] = component
    return components


def _imported(module: Any, name: str) -> Any:
    """Return the component that a module's name refers to, from the file that defines it."""
    path = module.imports.get(name)
    if path is None:
        return module.members[name]
    return _imported(module.package[path.rpartition(".")[0].removeprefix("rankgrad.")], name)


# Text of docstrings.


def _module(module: Any, level: int) -> str:
    """Return a module's docstring and its public functions and classes."""
    texts = [f"{'#' * level} {module.path}\n", _sections(module), ""]
    for component in _exported(module).values():
        texts.append(_component(component, module, level + 1))
    return "\n".join(texts)


def _component(component: Any, module: Any, level: int) -> str:
    """Return a function or a class: signature, docstring, example, and a class's documented methods."""
    text, *examples = EXAMPLE.split(component.docstring.value)
    summary, _, description = text.partition("\n\n")
    texts = [f"{'#' * level} {component.name}\n", _prose(summary), "", "```python", _signature(component), "```"]
    if description:
        component.docstring.value = description
        texts += ["", _sections(component)]
    if examples:
        texts += ["", "**Example**", "", "```pycon", _example(module, examples), "```"]
    texts.append("")
    for name, method in component.members.items():
        if component.is_class and method.is_function and method.docstring and not name.startswith("_"):
            texts.append(_method(method, level + 1))
    return "\n".join(texts)


def _method(method: Any, level: int) -> str:
    title = f"{'#' * level} {method.parent.name}.{method.name}\n"
    return "\n".join([title, "```python", _signature(method), "```", "", _sections(method), ""])


def _signature(component: Any) -> str:
    """Return the signature of a function, or of a class's constructor, as in its file."""
    name = component.name
    if component.is_class:
        if "__init__" not in component.members:
            return f"class {name}"
        component = component.members["__init__"]
    head = textwrap.dedent(component.source).partition(":\n")[0]
    return re.sub(r"^def __init__\((\s*)self,?\s*", rf"class {name}(\1", head)


def _example(module: Any, examples: list[str]) -> str:
    """Return the doctests, with the imports that they need outside the file of the docstring."""
    text = "\n\n".join(examples).removeprefix(">>> import torch\n")
    ours = {name for name, path in module.imports.items() if path.startswith("rankgrad.")}
    used = []
    for name in sorted(ours.union(map(str, module.exports or ())), key=str.lower):
        if re.search(rf"\b{name}\b", text) and not re.search(rf"import .*\b{name}\b", text):
            used.append(name)
    imports = f">>> from {module.path} import {', '.join(used)}\n" if used else ""
    return f">>> import torch\n{imports}{text}"


def _sections(component: Any) -> str:
    returns = RETURNS.search(component.docstring.value)
    sections = griffe.parse_google(
        component.docstring,
        returns_multiple_items=False,
        returns_named_value=False,
        warn_unknown_params=False,
        warn_missing_types=False,
    )
    texts = []
    for section in sections:
        if section.kind is griffe.DocstringSectionKind.returns and returns:
            texts.append(f"**Returns**: {_prose(textwrap.dedent(returns[1]).strip())}")
        else:
            texts.append(_section(section))
    return "\n\n".join(texts)


def _section(section: Any) -> str:
    if section.kind is griffe.DocstringSectionKind.text:
        return _prose(section.value)
    if section.kind is griffe.DocstringSectionKind.admonition:
        return f"**{section.title}**: {_prose(section.value.contents)}"
    lines = [f"**{TITLES[section.kind]}**\n"]
    for item in section.value:
        is_error = section.kind is griffe.DocstringSectionKind.raises
        names = (str(item.annotation).strip("()") if is_error else item.name).split(", ")
        names = ", ".join(f"`{name}`" for name in names)
        lines.append(f"- {names}: {_prose(item.description)}".replace("\n", "\n  "))
    return "\n".join(lines)


def _prose(text: str) -> str:
    """Return text with equations in the syntax of code hosts."""
    return EQUATION.sub(lambda match: f"$`{' '.join(match[1].split())}`$", text)


# The tables of losses.


def _overview(module: Any, losses: dict[str, Any]) -> str:
    by_truth = sorted(losses, key=lambda name: (list(SHAPES).index(_truth(losses[name])), name))
    asked = [[f"`{_truth(losses[name])}`", _link(name), _summary(losses[name])] for name in by_truth]
    properties = [_properties(losses[name]) for name in by_truth]
    return "\n".join(
        [
            "# rankgrad.losses\n",
            _table(["truth", "loss", "what it asks for"], asked),
            _sections(module),
            "\n## Properties\n",
            ABOUT_PROPERTIES,
            _table(list(PROPERTIES), properties),
            "## To write a loss with\n",
            "[Your own loss](../own_code.md#a-loss-with-masks-weights-and-dim) uses them.\n",
            *(_component(_imported(module, name), module, level=3) for name in WRITING),
        ]
    )


def _truth(loss: Any) -> str:
    return loss.parameters[1].name


def _summary(loss: Any) -> str:
    return _prose(loss.docstring.value.partition("\n")[0])


def _link(name: str) -> str:
    return f"[{name}](losses/{name}.md)"


def _properties(loss: Any) -> list[str]:
    """Return a row of the table of properties."""
    name, truth = loss.name, _truth(loss)
    times = _times().get(name, {})
    growth = times.get("growth", "")
    in_blocks = "sums_over_pairs" in loss.parent.members and float(growth or 0) > 1.5
    papers = [paper for paper in _papers() if re.search(_pattern(paper), loss.docstring.value)]
    return [
        _link(name),
        f"`{truth}`",
        f"`{SHAPES[truth]}`",
        *("yes" if argument in loss.parameters else "" for argument in ("sorter", "dim", "weights")),
        times.get("ms, 10,000", ""),
        times.get("MB, 10,000", ""),
        growth,
        "to half a million pairs" if in_blocks else "yes",
        "" if name in _not_under_vmap() else "yes",
        "; ".join(papers),
    ]


def _table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _times() -> dict[str, dict[str, str]]:
    """Return the measured times of each loss by column."""
    times: dict[str, dict[str, str]] = {}
    columns: list[str] = []
    for line in TIMES.read_text().splitlines():
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells and cells[0].startswith("ms, 100"):
            columns = cells
        elif columns and len(cells) == len(columns):
            times.setdefault(name, dict(zip(columns, cells, strict=True)))
    return times


def _not_under_vmap() -> tuple[str, ...]:
    """Return the losses for which the contract tests expect an error under vmap and compilation."""
    for statement in ast.parse(CONTRACTS.read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "NO_VMAP":
            return ast.literal_eval(statement.value)
    raise ValueError(f"{CONTRACTS}: no NO_VMAP, expected the losses that do not run under vmap")


# Papers.


def _papers() -> list[str]:
    """Return the short names of papers, such as Qin et al. 2010."""
    return re.findall(r"^## (.+)$", BIBLIOGRAPHY.read_text(), re.MULTILINE)


def _pattern(paper: str) -> str:
    """Return a regular expression for a paper's name, which may continue on the next line."""
    return r"\b" + r"\s+".join(map(re.escape, paper.split())) + r"\b"


def _with_links(text: str, folder: Path) -> str:
    """Link the papers that a page in a folder names to the bibliography."""
    up = "../" * (len(folder.parts) - len(BIBLIOGRAPHY.parent.parts))
    for paper in _papers():
        anchor = re.sub(r"[^\w-]", "", paper.lower().replace(" ", "-"))
        text = re.sub(_pattern(paper), f"[{paper}]({up}{BIBLIOGRAPHY.name}#{anchor})", text)
    return text


def write() -> None:
    """Write all pages, and remove the pages of removed components."""
    texts = pages()
    for path in FOLDER.rglob("*.md"):
        if path not in texts:
            path.unlink()
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    write()
