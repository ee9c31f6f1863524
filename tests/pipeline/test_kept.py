"""Kept results: what made them is told, damage is refused, and the docs' tables are made of them."""

import re

import pandas as pd
import pytest

from rankgrad.io.results import Row, minus
from studies import intervals, kept, pages

from conftest import ROOT  # isort: skip

MADE_BY = {"commit": "0123", "params": {}, "hashes": {}, "machine": {}}


def test_a_study_without_its_origin_and_a_changed_table_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [Row("mse", "tau", 0.3, 0.2, 0.4)]
    with pytest.raises(ValueError, match="commit"):
        kept.write("other", rows, MADE_BY | {"commit": None})
    table = kept.write("mine", rows, MADE_BY) / "results.csv"
    assert kept.read("mine").made_by.items() >= MADE_BY.items()
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

    def test_methods_with_different_seeds_are_not_compared(self):
        with pytest.raises(ValueError, match="different seeds"):
            intervals.check_seeds(pd.Series({1: 0.1, 2: 0.2}), pd.Series({1: 0.3}))
