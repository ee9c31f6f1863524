"""Kept results: what made them is told, damage is refused, and the docs' tables are made of them."""

import re

import pytest

from rankgrad.io.results import Row, minus
from studies import cells, kept, pages, tables

from conftest import ROOT  # isort: skip

MADE_BY = {"commit": "0123", "params": {}, "hashes": {}, "machine": {}}


def test_a_study_is_found_by_run_and_metric(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [Row("mse", "tau", 0.3, 0.2, 0.4), Row("mse", "tau", 0.5, seed=1), Row("mse", "setting.lr", 0.1, fold=2)]
    kept.write("mine", rows, MADE_BY)
    study = kept.read("mine")
    assert study.made_by.items() >= MADE_BY.items()
    assert (study.runs, study.leaf("mse", "tau")) == (["mse"], (0.3, 0.2, 0.4))
    assert (study.by_seed("mse", "tau"), study.by_fold("mse", "setting.lr")) == ({1: 0.5}, {2: 0.1})
    with pytest.raises(ValueError, match="commit"):
        kept.write("other", rows, MADE_BY | {"commit": None})
    table = tmp_path / "studies/made/mine/results.csv"
    table.write_text(table.read_text().replace("0.3", "0.2"))
    with pytest.raises(ValueError, match=r"results\.csv: its SHA-256"):
        kept.read("mine")


def test_the_docs_show_the_default_run_that_is_kept():
    study, page = kept.read("default_run"), (ROOT / "docs/results.md").read_text()
    shown = re.findall(
        r"^\| .*?\| ([\w.@ -]+) \| multilabel_cross_entropy: ([\d.]+) \((.*?) to (.*?)\) \|", page, re.MULTILINE
    )
    assert {metric for metric, *_ in shown} == {"ranked 0-1", "answer 0-1"}
    for metric, *numbers in shown:
        row = study.leaf("label_ranking-multilabel_cross_entropy", f"{metric.split()[0]}.exact_match")
        assert numbers == [f"{number:.3f}" for number in row]
    for metric, value in re.findall(r"\| (ranked|answer) 0-1 \| .* \| rlsep: ([\d.]+) \(", page):
        assert value == f"{study.leaf('label_ranking-rlsep', f'{metric}.exact_match')[0]:.3f}"


def test_the_readme_shows_the_kept_comparison_of_gb1():
    study = kept.read("gb1_table")
    line = re.compile(r"^  (gb1-\w+) +([\d.]+) +(?:([-+]\S+) \((\S+) to (\S+)\))?", re.MULTILINE)
    lines = line.findall((ROOT / "README.md").read_text())
    assert [run for run, *_ in lines] == study.runs
    for run, value, *difference in lines:
        assert value == f"{study.leaf(run, 'spearman')[0]:.3f}"
        if any(difference):
            assert difference == [f"{number:+.3f}" for number in study.leaf(run, minus("spearman", "gb1-mse"))]


class TestPages:
    PLACE = "before\n<!-- results: {} -->\nold\n<!-- end of results -->\nafter\n"

    def test_text_replaces_what_stands_in_its_place_and_a_page_without_one_stays_as_it_is(self, tmp_path):
        page, other = tmp_path / "page.md", self.PLACE.format("other")
        page.write_text(other + self.PLACE.format("mine"))
        pages.write(page, "mine", r"| new \1 |" + "\n")
        assert page.read_text() == other + self.PLACE.format("mine").replace("old", r"| new \1 |")
        for text in ("", "<!-- results: mine -->\nno end", self.PLACE.format("mine") * 2):
            page.write_text(text)
            with pytest.raises(ValueError, match="page.md"):
                pages.write(page, "mine", "new")
            assert page.read_text() == text

    def test_margins_are_tested_over_seeds_and_every_loss_must_have_the_same(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        by_loss = {"multilabel_cross_entropy": {1: 0.1, 2: 0.29, 10: 0.21},
                 "lsep": {10: 0.55, 2: 0.58, 1: 0.5},  # level with RLSEP, as a seed more or less decides
                 "rlsep": {1: 0.5, 2: 0.7, 10: 0.6}}  # fmt: skip

        def tested() -> dict[tuple[str, str], list[str]]:
            rows = []
            for loss, seeds in by_loss.items():
                for metric in tables.METRICS:
                    run = f"label_ranking-{loss}-x"
                    rows += [
                        Row(run, metric, 0.0),
                        *(Row(run, metric, value, seed=key) for key, value in seeds.items()),
                    ]
            kept.write("mine", rows, MADE_BY)
            return tables.margins(kept.read("mine"))

        margins = tested()
        assert [margins["ranked.exact_match", loss][0] for loss in ("multilabel_cross_entropy", "lsep")] == [
            "+40.0",
            "+5.7",
        ]
        ps = [float(margins["ranked.exact_match", loss][1]) for loss in ("multilabel_cross_entropy", "lsep")]
        assert ps[0] < 0.05 < ps[1]
        assert 0.001 <= float(margins["ranked.exact_match", "multilabel_cross_entropy"][2]) < 1
        assert cells.spread(kept.read("mine"), "ranked.exact_match", "label_ranking-rlsep-x") == "60.0 ± 10.0"
        by_loss["lsep"] = {1: 0.5}
        with pytest.raises(ValueError, match="different seeds"):
            tested()
