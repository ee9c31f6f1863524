"""Write the report: an HTML page with its figures, and the tables of docs/results.md."""

from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, select_autoescape
from PIL import Image

from pipelines.config import Settings
from pipelines.ops.leftovers import described, leftovers
from pipelines.reporting.content import content
from pipelines.reporting.results import cell
from rankgrad.io.atomic import replaced_file, replaced_folder

FIGURES = Path("reports/figures")


def main(params: Settings) -> None:
    if extra := leftovers(params):
        raise ValueError("\n".join(map(described, extra)))
    loader, escaped = PackageLoader("pipelines.reporting"), select_autoescape(["html.j2"])
    environment = Environment(loader=loader, autoescape=escaped, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"quoted": quote, "width": _width}
    with replaced_folder(FIGURES) as folder:
        shown = content(params, folder)
    for template, path in {"report.html.j2": "reports/index.html", "results.md.j2": "reports/results.md"}.items():
        with replaced_file(path) as partial:
            partial.write_text(environment.get_template(template).render(shown, cell=cell))


def _width(picture: str) -> int:
    """Return the width of a figure on the page; figures have twice the page's resolution."""
    with Image.open(FIGURES / picture) as image:
        return image.width // 2
