"""Datasets of scenes: contents follow from recipes, and validation names every planted fault."""

import json
import re
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from caption_grammar import holds, parse
from scipy.stats import skew, spearmanr

from pipelines.config.schema import check_shapes
from pipelines.stages import data
from rankgrad import lookup
from rankgrad.datasets import captions, long_tailed_mnist
from rankgrad.datasets.scenes import digits, layout, measures
from rankgrad.datasets.scenes.base import Scenes
from rankgrad.datasets.scenes.drawing import draw
from rankgrad.io.parquet import encode_images
from rankgrad.seeding import generator
from studies.figures import rlsep_scenes

from conftest import SUBSET, params_of, refusal, with_cell, with_column  # isort: skip

ROWS = {"train": 80, "val": 40, "test": 40, "gate": 40}
SCENE = {"canvas": 32, "digits_per_image": (3, 6), "scale": (1.0, 4.0), "overlap": 0.0}
BLOCKS = {
    "ranked_mnist": SCENE,
    "clips": SCENE | {"drift": 0.5, "zoom": 1.05, "viewers": 40, "train_viewers": 35, "sessions": 8, "scale_use": 2.0},
    "long_tailed_mnist": SCENE | {
        "canvas": 64, "digits_per_image": (1, 5), "scale": (0.75, 2.0), "overlap": 0.3, "most_frequent": 0.5,
        "least_frequent": 0.02, "distractors": (2, 5),
    },
    "captions": SCENE | {"digits_per_image": (2, 4), "scale": (1.0, 3.0)},
    "shaded_mnist": SCENE | {"scale": (2.0, 3.0), "brightness": (0.1, 1.0), "ranked_by": "brightness"},
}  # fmt: skip
VARIANTS = {
    "ranked_mnist-dense": SCENE | {"digits_per_image": (8, 9), "overlap": 0.3, "scale": (1.0, 3.0)},
    "shaded_mnist-size": BLOCKS["shaded_mnist"] | {"ranked_by": "size"},
}


def build(name, **changed) -> Scenes:
    options = {"rows": ROWS, "seed": 1} | (BLOCKS | VARIANTS)[name] | changed
    return lookup.find("datasets", name.partition("-")[0])(**options)


@cache
def settings():
    blocks = {}
    for name, args in json.loads(json.dumps(BLOCKS | VARIANTS)).items():
        dataset = name.partition("-")[0]
        blocks[name] = {"name": dataset, "raw": "data/raw/subset", "rows": ROWS, "seed": 1, "args": args}
    return check_shapes(params_of({"compute": {"threads": 1}}) | {"datasets": blocks})


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with digits and all datasets, as the stages write them."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "data/raw").mkdir(parents=True)
    (folder / "data/raw/subset").symlink_to(SUBSET)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in BLOCKS | VARIANTS:
            data.main(settings(), name)
    return folder


@pytest.fixture(scope="module")
def digit_sets(project):
    """Digits by split."""
    return {split: digits.load(SUBSET, digits.DIGITS_OF[split]) for split in ROWS}


@pytest.fixture
def check(project, monkeypatch):
    """Validates a dataset, some of its splits changed: what is said against it, or None."""
    monkeypatch.chdir(project)
    return lambda name, **changes: refusal(settings(), name, **changes)


def with_item(column, row, item, change):
    """Changes an item of a list in a table, or the whole cell; its place may be found from the list."""

    def changed(cell):
        if item is None:
            return change(cell)
        at = item(cell) if callable(item) else item
        return [change(value) if number == at else value for number, value in enumerate(cell)]

    return with_cell(column, row, changed)


def present(cell):
    return next(index for index, value in enumerate(cell) if value > 0)


def boxes_of(recipe, row):
    """Size, top and left of each box of a scene, by its label."""
    values = [recipe[name][row].tolist() for name in ("size", "top", "left")]
    return {label: box for label, box in enumerate(zip(*values, strict=True)) if box[0] > 0}


def absent(cell):
    return cell.index(0.0)


def higher(rank):
    return rank + 1


# Of each dataset, faults in its training split: column, row, item of a list, the change, and what is said of the row.
FAULTS = {
    "ranked_mnist": [
        ("label_ranks", 11, present, higher, "scenes: ranks_follow_size"),
        ("size", 12, absent, lambda _: 1.0, "digits: size"),
    ],
    "clips": [
        ("share", 30, None, lambda _: 1.25, "score_is_a_share_of_viewers"),
        ("share", 33, None, lambda _: 0.0, "score_is_believable"),
        ("target", 2, None, lambda score: score + 0.1, "target_follows_share"),
        ("probability", 34, None, lambda p: p - 0.01, "probability_follows_content"),
        ("drift", 37, None, lambda _: [0.0, 3.0], "scenes: drift"),
        ("frames", 4, None, lambda f: [f[6], *f[1:6], f[0]], "difference_from_recipe"),
    ],
    "long_tailed_mnist": [
        ("labels", 20, 9, lambda label: 1 - label, "labels_follow_recipe"),
        ("difficult", 21, 2, lambda _: True, "scenes: difficult"),
        ("distractor_shuffle", 3, 0, lambda way: (way + 1) % 48, "difference_from_recipe"),
        ("distractor_shuffle", 22, 0, lambda _: 99, "shuffles_are_known"),
        ("distractor_glyph", 23, 1, lambda _: 10**6, "distractors: glyph_is_of_this_split"),
    ],
    "shaded_mnist": [
        ("label_ranks", 11, present, higher, "scenes: ranks_follow_brightness"),
        ("brightness", 12, absent, lambda _: 0.5, "brightness_is_of_its"),
        ("brightness", 4, present, lambda value: 1.1 - value, "difference_from_recipe"),
    ],
    "captions": [
        ("captions", 20, 2, lambda _: "a purple digit above a seven", "captions_name_its_digits"),
        ("captions", 24, None, lambda several: [several[0]] * 5, "different_captions"),
        ("family", 26, None, lambda _: 30, "twins_stand_together"),
        ("top", 2, present, lambda _: 0.25, "two_digits_are_exchanged"),
    ],
}


@pytest.mark.parametrize("name", BLOCKS | VARIANTS)
def test_faultless_data_pass_and_leave_a_page(check, project, name):
    assert check(name) is None
    page = (project / f"reports/data/{name}.html").read_text()
    expected = page[page.index("What was expected") :].partition("</table>")[0]
    # Each check says of what it is, and numbers have as many digits as a person reads.
    assert not re.findall(r"<th></th>|\.0*[1-9]\d{4}|True|expect_|FAILED", expected)


@pytest.mark.parametrize("name", BLOCKS)
class TestAll:
    def test_is_drawn_in_pieces_by_its_seed_and_numbered_through_over_snapshots(self, digit_sets, name, monkeypatch):
        monkeypatch.setattr(lookup.find("datasets", name), "piece", 60)

        def drawn(*counts, seed=1):
            dataset = build(name, canvas=32, scale=(2.0, 2.8), seed=seed)
            table = pa.concat_tables(dataset.tables(digit_sets["train"], "train", [*counts], threads=1))
            assert table.schema.equals(dataset.schema)
            return table

        state, table = torch.get_rng_state(), drawn(80, 4, 4)
        assert table["id"].to_pylist() == list(range(88))
        assert table.slice(0, 80).equals(drawn(80))
        assert not table.slice(0, 80).equals(drawn(80, seed=2))
        assert not table.slice(80, 4).drop(["id"]).equals(table.slice(84, 4).drop(["id"]))
        assert torch.get_rng_state().equal(state)

    def test_faults_are_named(self, check, digit_sets, project, name):
        sizes = pq.read_table(project / f"data/{name}/train.parquet")["size"].to_pylist()
        labels, glyphs = [present(sizes[row]) for row in range(80)], digit_sets["train"]
        foreign = digit_sets["test"].glyph[digit_sets["test"].labels == labels[6]][0].item()
        wrong = glyphs.glyph[glyphs.labels != labels[7]][0].item()
        faults = [
            ("glyph", 6, labels[6], lambda _: foreign, "digits: glyph_is_of_this_split"),
            ("glyph", 7, labels[7], lambda _: wrong, "glyph_has_this_label"),
            ("left", 8, labels[8], lambda _: 70.0, "inside_canvas"),
            ("size", 10, labels[10], lambda _: 60.0, "size"),
            *FAULTS[name],
        ]
        changes = [with_item(*change) for *change, _ in faults]
        changes.append(lambda table: pa.concat_tables([table.slice(0, 78), table.slice(0, 1)]))
        message = check(name, train=changes)
        for _, row, _, _, said in faults:
            assert re.search(rf"{said}.*split train, id {row}\b", message), said
        assert f"id 6, label {labels[6]}: glyph_is_of_this_split = False" in message
        for words in ("200 rows; found 199", "split, id: ", "pixels: ", "difference_from_recipe: "):
            assert f"scenes: {words}" in message
        assert "split train, id 0" in message


@pytest.mark.parametrize(
    ("name", "column", "broken"),
    [("ranked_mnist", "image", lambda _: {"bytes": b"PNG"}), ("clips", "frames", lambda cell: [None, *cell[1:]])],
)
def test_faults_of_images_are_named(check, name, column, broken):
    canvas, frames = BLOCKS[name]["canvas"], build(name).frames

    def black(side):
        images = encode_images(np.zeros((40 * frames, side, side), np.uint8), threads=1)
        images = images if frames == 1 else pa.FixedSizeListArray.from_arrays(images, frames)
        return lambda table: table.set_column(1, table.schema.field(1), images)

    message = check(name, test=[black(canvas)], gate=[black(canvas + 8)])
    for words in ("digits: ink_in_box", "split test, id 0", f"split gate, id 0: side = {canvas + 8}"):
        assert words in message
    with pytest.raises(ValueError, match=r"val\.parquet: row 5: "):
        check(name, val=[with_cell(column, 5, broken)])


IMPOSSIBLE = [
    ("ranked_mnist", {"rows": {"train": 80}}, "rows is of train"),
    ("ranked_mnist", {"digits_per_image": (0, 5)}, "digits_per_image is 0 to 5"),
    ("ranked_mnist", {"digits_per_image": (3, 11)}, "digits_per_image is 3 to 11"),
    ("ranked_mnist", {"digits_per_image": (5, 6), "scale": (4.0, 4.0)}, "digits_per_image is 5 to 6.*125%"),
    ("ranked_mnist", {"scale": (1.0, 9.0)}, "scale is 1.0 to 9.0"),
    ("ranked_mnist", {"scale": (0.25, 4.0)}, "scale is 0.25.*32.* 1 px"),
    ("ranked_mnist", {"overlap": 1.5}, "overlap is 1.5"),
    ("clips", {"zoom": 0.9}, "zoom is 0.9"),
    ("clips", {"viewers": 0}, "viewers is 0"),
    ("clips", {"sessions": 1}, "sessions is 1"),
    ("clips", {"likeness": 1.5}, "likeness is 1.5"),
    ("clips", {"scale_use": 0.5}, "scale_use is 0.5"),
    ("long_tailed_mnist", {"most_frequent": 0.01}, "least_frequent is 0.02 and most_frequent 0.01"),
    ("captions", {"digits_per_image": (1, 3)}, "digits_per_image is 1 to 3"),
    ("shaded_mnist", {"brightness": (0.0, 1.0)}, "brightness is 0.0 to 1.0"),
    ("shaded_mnist", {"brightness": (0.9, 0.9)}, "ranked_by is brightness, but brightness is 0.9 to 0.9"),
    ("shaded_mnist", {"ranked_by": "size", "scale": (2.0, 2.0)}, "ranked_by is size, but scale is 2.0 to 2.0"),
]


@pytest.mark.parametrize(("name", "changed", "message"), IMPOSSIBLE)
def test_an_impossible_option_is_named(name, changed, message):
    with pytest.raises(ValueError, match=message):
        build(name, **changed)


@pytest.mark.parametrize(
    ("name", "module", "changed", "message"),
    [
        ("ranked_mnist", layout, {"digits_per_image": (9, 9), "scale": (2.0, 4.0)}, "9 boxes of scale 2.0 to 4.0"),
        ("long_tailed_mnist", layout, {"scale": (2.5, 3.0), "distractors": (9, 10), "overlap": 0.0}, "2.5 to 3.0"),
        ("captions", captions, {"scale": (2.0, 2.1)}, "scale is 2.0 to 2.1"),
    ],
)
def test_scenes_that_cannot_be_drawn_are_told(digit_sets, monkeypatch, name, module, changed, message):
    monkeypatch.setattr(module, "ROUNDS", 3)
    with pytest.raises(ValueError, match=message):
        list(build(name, **changed).tables(digit_sets["train"], "train", [20], threads=1))


def test_labels_that_are_too_frequent_are_named(check):
    often = with_column("labels", lambda cells: [[1] * 3 + [0] * 7] * len(cells))
    assert "label_2: mean " in check("long_tailed_mnist", train=[often])


def test_scenes_in_memory_are_those_of_the_recipes(digit_sets):
    dataset, glyphs = build("ranked_mnist"), digit_sets["train"]
    images, label_ranks = dataset.scenes(glyphs, 300, generator(1, "test"))
    recipe = dataset.draw(glyphs, range(300), generator(1, "test"))
    assert images.equal(dataset.pictures(recipe, glyphs))
    assert label_ranks.equal(recipe["label_ranks"])
    sizes = recipe["size"][recipe["size"] > 0]
    assert (sizes != sizes.round()).float().mean() > 0.99  # real-valued: whole pixels would make ties


class TestClips:
    def test_each_frame_is_drawn_where_the_camera_has_moved_and_cut_off_at_the_edges(self, digit_sets):
        dataset, glyphs = build("clips", drift=4.0), digit_sets["val"]
        recipe, wrong = dataset.draw(glyphs, range(8), generator(1, "test")), []
        frames, shown = dataset.pictures(recipe, glyphs), glyphs.images[glyphs.rows_of(recipe["glyph"])]
        for frame in range(7):
            magnified, drift = recipe["zoom"][:, None] ** (frame - 3), recipe["drift"][:, None] * (frame - 3)
            # On a canvas that is larger by 16 on each side.
            down = 32 + (recipe["top"] - 16) * magnified + drift[..., 0]
            right = 32 + (recipe["left"] - 16) * magnified + drift[..., 1]
            drawn = draw(shown, recipe["size"] * magnified, down, right, canvas=64)[:, 16:48, 16:48]
            wrong.append((drawn.int() - frames[:, frame].int()).abs() > 1)
        # A pixel whose center is on a box's edge may fall on either side.
        assert torch.stack(wrong).float().mean() < 1e-4

    def test_the_score_is_high_skewed_and_noisy(self, digit_sets):
        recipe = build("clips", canvas=64).draw(digit_sets["train"], range(5000), generator(1, "test"))
        assert recipe["target"].mean().item() == pytest.approx(0.8, abs=0.02)
        assert skew(recipe["target"].numpy()) < -0.4
        assert 0.84 < spearmanr(recipe["probability"], recipe["target"])[0] < 0.91

    def test_fewer_viewers_of_training_clips_change_their_scores_alone(self, digit_sets):
        dataset, noisy = (build("clips", sessions=None, train_viewers=viewers) for viewers in (None, 3))
        for split in ("train", "val"):
            tables = (clips.tables(digit_sets[split], split, [40], threads=1) for clips in (dataset, noisy))
            before, after = map(pa.concat_tables, tables)
            assert before.drop(["target"]).equals(after.drop(["target"]))
            assert before.equals(after) == (split == "val")


class TestLongTailedMnist:
    def test_classes_are_as_frequent_as_the_exact_distribution_says(self, digit_sets):
        dataset = build("long_tailed_mnist")
        recipe = dataset.draw(digit_sets["train"], range(20000), generator(1, "test"))
        present_ = recipe["size"] > 0
        classes, counts, kept = dataset.distribution()
        assert (present_.double().mean(0) - classes).abs().max() < 0.02
        assert present_.sum(1).bincount(minlength=6)[1:].double().div(20000).sub(counts).abs().max() < 0.02
        # All that is drawn again: none of the classes, or too many.
        free = 0.5 * (0.02 / 0.5) ** (torch.arange(10, dtype=torch.float64) / 9)
        assert kept == pytest.approx(1 - (1 - free).prod().item(), abs=0.01)

    def test_a_distractor_is_no_digit(self):
        assert [[quarter, 0, 0] for quarter in range(4)] not in long_tailed_mnist.SHUFFLES.tolist()


class TestCaptions:
    def test_captions_are_true_and_four_of_five_false_of_the_twin(self, digit_sets):
        recipe = build("captions", canvas=64).draw(digit_sets["train"], range(600), generator(1, "test"))
        boxes = [boxes_of(recipe, row) for row in range(600)]
        for row, captions_ in enumerate(recipe["captions"]):
            claims_of = [parse(caption) for caption in captions_]
            assert all(holds(claim, boxes[row], canvas=64) is True for claims in claims_of for claim in claims)
            false = 0
            for claims in claims_of:
                false += any(holds(claim, boxes[row ^ 1], canvas=64) is False for claim in claims)
            assert false >= 4


def test_scenes_of_the_figures_have_exact_scales_and_frames_in_which_one_digit_grows_and_one_shrinks(generator):
    glyphs = digits.Digits(torch.arange(20), torch.full((20, 28, 28), 200, dtype=torch.uint8), torch.arange(20) % 10)
    recipe = rlsep_scenes.calibration_recipes(glyphs, 200, canvas=64, generator=generator)
    size = recipe["size"]
    assert size.sort(1).values.equal(torch.tensor([0.0] * 6 + [8.0, 16.0, 24.0, 32.0]).expand(200, 10))
    assert recipe["label_ranks"].equal((size / 8).long())
    assert measures.largest_overlap(size, recipe["top"], recipe["left"]).max() == 0
    size = rlsep_scenes.frame_recipes(glyphs, 7, canvas=64, generator=generator)["size"][:, 1:4]
    assert size.diff(dim=0).equal(torch.tensor([4.0, 0.0, -4.0]).expand(6, 3))
