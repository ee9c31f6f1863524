"""Write the HTML template of `dvc plots`, with its chart library included: `python -m pipelines.reporting.plots_page`.

DVC's own template loads the library from the internet. `make setup` writes this one to `.dvc` and sets it in
`.dvc/config.local`.
"""

from pathlib import Path

import vl_convert
from dvc.config import Config

from rankgrad.io.atomic import replaced_file

__all__ = ["write"]

FILE = "plots.html"  # below .dvc
PAGE = """<!DOCTYPE html>
<html>
<head>
    {{refresh_tag}}
    <meta charset="utf-8">
    <title>DVC plots</title>
    <script>(() => {{ {bundle} }})();</script>
    <style>table {{ border-spacing: 15px; }}</style>
</head>
<body>
    {{plot_divs}}
</body>
</html>
"""


def write(folder: Path) -> None:
    """Write the template into a `.dvc` folder, and set it in the folder's config."""
    [*_, newest] = [version for version in vl_convert.get_vegalite_versions() if version.startswith("5.")]
    page = PAGE.format(bundle=vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", newest))
    with replaced_file(folder / FILE) as partial:
        partial.write_text(page, encoding="utf-8")
    with Config(str(folder)).edit("local") as config:
        config["plots"]["html_template"] = FILE


if __name__ == "__main__":
    write(Path(".dvc"))
