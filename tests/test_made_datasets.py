"""Clips, long-tailed MNIST and captions: contents follow from recipes, and validation names every planted fault."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import skew, spearmanr

from pipelines.expectations import ExpectationsFailed, Suite, validate
from rankops.datasets.scenes import captions, clips, digits, facts, layout, long_tailed_mnist, ranked_mnist
from rankops.datasets.scenes.drawing import draw
from rankops.io.parquet import decode_images, encode_images
from rankops.seeding import generator

SPLITS = {"train": 80, "val": 40, "test": 40}
SCENE = {"canvas": 32, "digits_per_image": (3, 6), "scale": (1.0, 4.0), "overlap": 0.0}
OPTIONS = {
    "clips": SCENE | {"drift": 0.5, "zoom": 1.05},
    "long_tailed_mnist": {
        "canvas": 64, "digits_per_image": (1, 5), "scale": (0.75, 2.0), "overlap": 0.3, "most_frequent": 0.5,
        "least_frequent": 0.02, "distractors": (2, 5),
    },
    "captions": {"canvas": 32, "digits_per_image": (2, 4), "scale": (1.0, 3.0), "overlap": 0.0},
}  # fmt: skip
VIEWERS = 40
EFFECTS = clips.class_effects(generator(1, "clips", "classes"))
EXTRA = {"clips": {"effects": EFFECTS, "viewers": VIEWERS}, "long_tailed_mnist": {}, "captions": {}}
MODULES = {"clips": clips, "long_tailed_mnist": long_tailed_mnist, "captions": captions}
INDEX = {
    "clips": {"clips": [], "digits": ["label"]},
    "long_tailed_mnist": {"scenes": [], "digits": ["label"], "distractors": ["distractor"]},
    "captions": {"scenes": [], "digits": ["label"], "captions": ["number"]},
}


@pytest.fixture(scope="module")
def known():
    """Digits by split."""
    result = {}
    for split, table in digits.tables("bundled", "", seed=1, threads=1).items():
        images = torch.from_numpy(
            decode_images(pa.chunked_array([table["image"].combine_chunks()]), path="", threads=1)
        )
        numbers, labels = (torch.from_numpy(table[name].to_numpy().copy()) for name in ("glyph", "label"))
        result[split] = digits.Digits(numbers, images, labels)
    return result


def make(dataset, known, split, rows, seed=1, **changed):
    """A split of a dataset, as its stage makes it."""
    options = OPTIONS[dataset] | EXTRA[dataset] | changed
    draws = generator(seed, "test", split)
    return pa.concat_tables(MODULES[dataset].tables(known[split], rows, threads=1, generator=draws, **options))


@pytest.fixture(scope="module")
def tables(known):
    return {
        dataset: {split: make(dataset, known, split, rows) for split, rows in SPLITS.items()} for dataset in MODULES
    }


@pytest.fixture
def check(known, tables, tmp_path):
    """Writes a dataset, one of its tables changed, and validates it: what is said against it, or None."""

    def run(dataset, change=None, split="train"):
        for part, table in tables[dataset].items():
            pq.write_table(change(table) if change and split in (part, "all") else table, tmp_path / f"{part}.parquet")
        facts = [
            MODULES[dataset].measure(tmp_path, known[part], part, threads=1, **EXTRA[dataset]) for part in SPLITS
        ]  # fmt: skip
        expectations = MODULES[dataset].expectations(rows=SPLITS, **OPTIONS[dataset])
        suites = [
            Suite(
                name,
                pd.concat([pd.DataFrame(part[number]) for part in facts], ignore_index=True),
                expectations[name],
                ["split", "id", *index],
            )
            for number, (name, index) in enumerate(INDEX[dataset].items())
        ]
        try:
            validate(dataset, suites, report=tmp_path / "report")
        except ExpectationsFailed as failed:
            return str(failed)
        return None

    return run


def with_cell(column, row, change):
    """Changes one cell of a table."""

    def changed(table):
        values = table[column].to_pylist()
        values[row] = change(values[row])
        kind = table.schema.field(column).type
        return table.set_column(table.column_names.index(column), column, pa.array(values, kind))

    return changed


def with_item(column, row, place, value):
    """Changes one item of a list in a table; `place` may be found from the list."""

    def change(cell):
        at = place(cell) if callable(place) else place
        return [value(item) if number == at else item for number, item in enumerate(cell)]

    return with_cell(column, row, change)


def row_twice(table):
    return pa.concat_tables([table.slice(0, len(table) - 1), table.slice(0, 1)])


def present(cell):
    return next(place for place, value in enumerate(cell) if value > 0)


@pytest.mark.parametrize("dataset", MODULES)
class TestAll:
    def test_faultless_data_pass(self, check, dataset):
        assert check(dataset) is None

    def test_is_the_same_from_the_same_seed_and_another_from_another(self, known, dataset):
        first, again, other = (make(dataset, known, "train", 20, seed=seed) for seed in (1, 1, 2))
        assert first.equals(again)
        assert not first.equals(other)

    def test_is_made_in_pieces_and_numbered_through(self, known, dataset):
        rows = 520 if dataset == "clips" else 2020  # a piece and some more
        table = make(dataset, known, "train", rows, canvas=32)
        assert table["id"].to_pylist() == list(range(rows))
        assert table.schema.equals(MODULES[dataset].SCHEMA)

    def test_the_global_random_state_is_left_alone(self, known, dataset):
        before = torch.get_rng_state()
        make(dataset, known, "train", 4)
        assert torch.get_rng_state().equal(before)

    def test_a_row_twice_and_a_row_lost_are_named(self, check, dataset):
        said = check(dataset, row_twice)
        for part in ("split, id", "split train, id 0", ": pixels: "):
            assert part in said
        assert "rows: expect_table_row_count_to_equal" in check(dataset, lambda table: table.slice(0, 78))

    def test_a_digit_of_another_split_is_named(self, check, known, tables, dataset):
        label = present(tables[dataset]["train"]["size"][6].as_py())
        foreign = known["test"].glyph[known["test"].labels == label][0].item()
        said = check(dataset, with_item("glyph", 6, label, lambda _: foreign))
        assert "digits: glyph_is_of_this_split" in said
        assert f"split train, id 6, label {label}: glyph_is_of_this_split = False" in said
        assert "difference_from_recipe" in said

    def test_a_digit_under_another_label_is_named(self, check, known, tables, dataset):
        label = present(tables[dataset]["train"]["size"][6].as_py())
        wrong = known["train"].glyph[known["train"].labels != label][0].item()
        said = check(dataset, with_item("glyph", 6, label, lambda _: wrong))
        assert f"split train, id 6, label {label}: glyph_has_this_label = False" in said

    def test_a_class_without_digits_is_refused(self, known, dataset):
        chosen = known["train"].labels != 3
        some = digits.Digits(*(getattr(known["train"], name)[chosen] for name in ("glyph", "images", "labels")))
        with pytest.raises(ValueError, match="no digit of class 3"):
            make(dataset, {"train": some}, "train", 4)


class TestClips:
    def test_each_frame_is_drawn_where_the_camera_has_moved(self, known, tables, tmp_path):
        pq.write_table(tables["clips"]["val"], tmp_path / "val.parquet")
        frames, _, _, recipe = clips.load(tmp_path, "val", threads=1)
        glyphs = {number: image for number, image in zip(known["val"].glyph.tolist(), known["val"].images, strict=True)}
        for row in range(8):
            there = recipe.middle.size[row].nonzero().flatten().tolist()
            (down, right), zoom = recipe.drift[row].tolist(), recipe.zoom[row].item()
            for frame in range(7):
                magnified, boxes = zoom ** (frame - 3), []
                for label in there:
                    size, top, left = (
                        getattr(recipe.middle, name)[row, label].item() for name in ("size", "top", "left")
                    )
                    boxes.append(
                        (
                            size * magnified,
                            16 + (top - 16) * magnified + down * (frame - 3),
                            16 + (left - 16) * magnified + right * (frame - 3),
                        )
                    )
                images = torch.stack([glyphs[recipe.middle.glyph[row, label].item()] for label in there])
                drawn = draw(images[None], *(torch.tensor([axis]) for axis in zip(*boxes, strict=True)), canvas=32)[0]
                assert (drawn.int() - frames[row, frame].int()).abs().max() <= 1

    def test_the_middle_frame_is_ranked_mnists_picture(self, known, tables, tmp_path):
        pq.write_table(tables["clips"]["val"], tmp_path / "val.parquet")
        frames, _, _, recipe = clips.load(tmp_path, "val", threads=1)
        assert ranked_mnist.pictures(recipe.middle, known["val"], canvas=32).equal(frames[:, 3])

    def test_digits_leave_the_canvas_as_on_a_larger_one(self, known):
        """What is drawn beyond the edges is cut off, and nothing else changes."""
        recipe = clips.recipes(known["train"], 30, generator=generator(1, "test"), **OPTIONS["clips"] | {"drift": 4.0})
        inside = clips.pictures(recipe, known["train"], canvas=32)
        middle = recipe.middle
        moved = ranked_mnist.Recipes(
            middle.label_ranks, middle.size, middle.top + 16, middle.left + 16, middle.glyph
        )  # fmt: skip
        wide = clips.pictures(clips.Recipes(moved, recipe.drift, recipe.zoom), known["train"], canvas=64)
        difference = wide[:, :, 16:48, 16:48].int() - inside.int()
        # A pixel whose center is on a box's edge may fall on either side.
        assert (difference.abs() > 1).float().mean() < 1e-4
        assert (wide.flatten(2).long().sum(2) > inside.flatten(2).long().sum(2)).any(1).float().mean() > 0.5

    def test_the_score_is_bounded_skewed_and_noisy(self, known):
        options = OPTIONS["clips"] | {"canvas": 64}
        recipe = clips.recipes(known["train"], 5000, generator=generator(1, "test"), **options)
        hidden = clips.probabilities(recipe.middle, EFFECTS, canvas=64)
        score = (torch.rand(5000, VIEWERS, generator=generator(2, "test")) < hidden[:, None]).float().mean(1)
        assert score.mean().item() == pytest.approx(0.8, abs=0.02)
        assert skew(score.numpy()) < -0.4
        assert 0.84 < spearmanr(hidden, score)[0] < 0.91

    def test_the_hidden_chance_is_the_documented_formula(self, known):
        recipe = clips.recipes(known["train"], 20, generator=generator(1, "test"), **OPTIONS["clips"])
        found = clips.probabilities(recipe.middle, EFFECTS, canvas=32)
        for row, sizes in enumerate(recipe.middle.size.tolist()):
            areas = {label: size**2 for label, size in enumerate(sizes) if size > 0}
            total = sum(areas.values())
            logit = (
                clips.BIAS
                + clips.CLASS * sum(area / total * EFFECTS[label].item() for label, area in areas.items())
                + clips.DOMINANCE * (max(areas.values()) / total - clips.DOMINANCE_USUAL)
                + clips.COUNT * (len(areas) - clips.COUNT_USUAL)
                + clips.CLUTTER * (total / 32**2 - clips.CLUTTER_USUAL)
            )
            assert found[row].item() == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-6)

    def test_viewers_err_about_the_stored_chance(self, tables):
        table = pa.concat_tables(tables["clips"].values())
        score, hidden = (table[name].to_numpy().astype(float) for name in ("score", "probability"))
        assert np.abs(score * VIEWERS - np.round(score * VIEWERS)).max() < 1e-4
        standardized = (score - hidden) / np.sqrt(hidden * (1 - hidden) / VIEWERS)
        assert 0.7 < standardized.std() < 1.3

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            ({"zoom": 0.9}, "zoom is 0.9, expected a magnification a frame from 1"),
            ({"zoom": float("nan")}, "zoom is nan"),
            ({"drift": -1.0}, "drift is -1.0, expected pixels a frame from 0"),
            ({"viewers": 0}, "viewers is 0, expected at least 1"),
        ],
    )
    def test_impossible_options_are_refused(self, known, option, message):
        with pytest.raises(ValueError, match=message):
            make("clips", known, "train", 4, **option)

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            (
                with_cell("frames", 4, lambda frames: [frames[6], *frames[1:6], frames[0]]),
                ["clips: difference_from_recipe", "split train, id 4: difference_from_recipe"],
            ),
            (
                with_cell("score", 3, lambda _: 1.25),
                ["clips: score_is_a_share_of_viewers", "split train, id 3", "clips: score_is_believable"],
            ),
            (with_cell("score", 3, lambda score: score - 0.01), ["score_is_a_share_of_viewers", "split train, id 3"]),
            (with_cell("score", 3, lambda _: None), ["score_is_a_share_of_viewers", "split train, id 3"]),
            (with_cell("score", 3, lambda _: 0.0), ["score_is_believable", "split train, id 3"]),
            (
                with_cell("probability", 5, lambda hidden: hidden - 0.01),
                ["clips: probability_follows_content", "split train, id 5"],
            ),
            (
                with_item("label_ranks", 7, present, lambda rank: rank + 1),
                ["clips: ranks_follow_sizes", "split train, id 7"],
            ),
            (with_item("left", 5, present, lambda _: 40.0), ["digits: inside_canvas", "split train, id 5"]),
            (with_item("size", 5, present, lambda _: 20.0), ["digits: size", "split train, id 5", "20.0"]),
            (with_cell("zoom", 8, lambda _: 1.2), ["clips: zoom", "split train, id 8: zoom = 1.2"]),
            (with_cell("drift", 8, lambda _: [0.0, 3.0]), ["clips: drift", "split train, id 8: drift = 3.0"]),
        ],
        ids=[
            "frames swapped", "score outside", "score no share", "no score", "score impossible", "chance",
            "rank", "outside", "size", "zoom", "drift",
        ],
    )  # fmt: skip
    def test_a_fault_is_named(self, check, change, expected):
        said = check("clips", change)
        assert said is not None
        for part in expected:
            assert part in said

    def test_scores_without_noise_are_named(self, check):
        def exact(table):
            share = np.round(table["probability"].to_numpy() * VIEWERS) / VIEWERS
            return table.set_column(2, "score", pa.array(share, pa.float32()))

        assert "clips: standardized_score: expect_column_stdev_to_be_between" in check("clips", exact, "all")

    def test_a_clip_with_too_few_frames_and_a_corrupt_frame_are_named(self, known, tables, tmp_path):
        table = tables["clips"]["val"]
        frames = table["frames"].to_pylist()
        short = pa.array(
            [frames[0], frames[1][:5], *frames[2:]], pa.list_(table.schema.field("frames").type.value_type)
        )
        pq.write_table(table.set_column(1, "frames", short), tmp_path / "val.parquet")
        with pytest.raises(ValueError, match=r"val\.parquet: row 1: 5 frames, expected 7"):
            clips.load(tmp_path, "val", threads=1)
        frames[9][2]["bytes"] = frames[9][2]["bytes"][:40]
        broken = pa.array(frames, table.schema.field("frames").type)
        pq.write_table(table.set_column(1, "frames", broken), tmp_path / "val.parquet")
        with pytest.raises(ValueError, match=r"val\.parquet: frame 2: row 9: not a whole PNG"):
            clips.load(tmp_path, "val", threads=1)


class TestLongTailedMnist:
    def test_labels_follow_the_recipe_and_nothing_is_difficult(self, tables, tmp_path):
        pq.write_table(tables["long_tailed_mnist"]["train"], tmp_path / "train.parquet")
        images, labels, difficult, recipe = long_tailed_mnist.load(tmp_path, "train", threads=1)
        assert images.shape == (80, 64, 64)
        assert labels.equal((recipe.size > 0).long())
        assert difficult.dtype == torch.bool
        assert not difficult.any()

    def test_classes_are_as_frequent_as_the_exact_distribution_says(self, known):
        options = {name: OPTIONS["long_tailed_mnist"][name] for name in ("most_frequent", "least_frequent")}
        numbers = {"digits_per_image": (1, 5)}
        recipe = long_tailed_mnist.recipes(
            known["train"], 20000, generator=generator(1, "test"), **OPTIONS["long_tailed_mnist"]
        )
        there = recipe.size > 0
        classes, counts, kept = long_tailed_mnist.distribution(**options, **numbers)
        error = (classes * (1 - classes) / 20000).sqrt()
        assert ((there.double().mean(0) - classes).abs() < 5 * error).all()
        assert there.sum(1).bincount(minlength=6)[1:].double().div(20000).sub(counts).abs().max() < 0.02
        # All that is drawn again: none of the classes, or too many.
        free = 0.5 * (0.02 / 0.5) ** (torch.arange(10, dtype=torch.float64) / 9)
        assert kept == pytest.approx(1 - (1 - free).prod().item(), abs=0.01)

    def test_without_limits_the_distribution_is_the_frequencies(self):
        classes, counts, kept = long_tailed_mnist.distribution(
            most_frequent=0.4, least_frequent=0.1, digits_per_image=(0, 10)
        )
        assert kept == pytest.approx(1)
        assert classes[[0, 9]].tolist() == pytest.approx([0.4, 0.1])
        assert (classes[1:] / classes[:-1]).tolist() == pytest.approx([0.25 ** (1 / 9)] * 9)
        assert (counts @ torch.arange(11, dtype=torch.float64)).item() == pytest.approx(classes.sum().item())

    def test_shuffles_move_quadrants_and_two_of_them_point_outwards(self):
        glyph = torch.arange(28 * 28, dtype=torch.int64).view(1, 28, 28)
        ways = torch.arange(len(long_tailed_mnist.SHUFFLES))
        moved = long_tailed_mnist.shuffled(glyph.expand(len(ways), 28, 28), ways)
        assert moved.flatten(1).sort(1).values.equal(glyph.flatten(1).expand(len(ways), -1))
        assert len(moved.unique(dim=0)) == len(ways)
        blot = torch.zeros(1, 28, 28, dtype=torch.uint8)
        blot[:, 13:15, 13:15] = 1  # as symmetric as can be, all in the middle
        after = long_tailed_mnist.shuffled(blot.expand(len(ways), 28, 28), ways)
        assert (after[:, 13:15, 13:15].flatten(1).sum(1) == 2).all()
        assert (after[:, [0, 0, 27, 27], [0, 27, 0, 27]].sum(1) == 2).all()

    def test_distractors_are_drawn_from_their_recipe(self, known, tables, tmp_path):
        pq.write_table(tables["long_tailed_mnist"]["val"], tmp_path / "val.parquet")
        images, _, _, recipe = long_tailed_mnist.load(tmp_path, "val", threads=1)
        glyphs = {number: image for number, image in zip(known["val"].glyph.tolist(), known["val"].images, strict=True)}
        for row in range(10):
            pictures, boxes = [], []
            for place in recipe.size[row].nonzero().flatten().tolist():
                pictures.append(glyphs[recipe.glyph[row, place].item()])
                boxes.append([getattr(recipe, name)[row, place] for name in ("size", "top", "left")])
            for place in recipe.distractor_size[row].nonzero().flatten().tolist():
                source = glyphs[recipe.distractor_glyph[row, place].item()]
                picture = torch.zeros_like(source)
                way = long_tailed_mnist.SHUFFLES[recipe.distractor_shuffle[row, place]].tolist()
                for target, (origin, down, across) in enumerate(way):
                    (t, l), (r, c) = divmod(target, 2), divmod(origin, 2)  # noqa: E741
                    quadrant = source[14 * r : 14 * r + 14, 14 * c : 14 * c + 14]
                    quadrant = quadrant.flip(0) if down else quadrant
                    picture[14 * t : 14 * t + 14, 14 * l : 14 * l + 14] = quadrant.flip(1) if across else quadrant
                pictures.append(picture)
                boxes.append([getattr(recipe, f"distractor_{name}")[row, place] for name in ("size", "top", "left")])
            drawn = draw(torch.stack(pictures)[None], *torch.tensor(boxes).T[:, None], canvas=64)[0]
            assert (drawn.int() - images[row].int()).abs().max() <= 1

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            ({"distractors": (3, 11)}, "distractors is 3 to 11, expected the smaller first, from 0 to 10"),
            ({"distractors": (3, 2)}, "distractors is 3 to 2"),
            ({"digits_per_image": (0, 5)}, "digits_per_image is 0 to 5, expected the smaller first, from 1"),
            ({"most_frequent": 0.01}, r"frequencies fall from 0\.01 \(most_frequent\) to 0\.02 \(least_frequent\)"),
            ({"most_frequent": 1.0}, r"fall from 1\.0"),
            ({"least_frequent": 0.0}, r"to 0\.0 \(least_frequent\)"),
            ({"digits_per_image": (9, 10)}, "a share of .* has 9 to 10 digits, expected at least 0.01"),
        ],
    )
    def test_impossible_options_are_refused(self, known, option, message):
        with pytest.raises(ValueError, match=message):
            make("long_tailed_mnist", known, "train", 4, **option)

    def test_says_when_boxes_do_not_fit(self, known, monkeypatch):
        monkeypatch.setattr(layout, "ROUNDS", 3)
        with pytest.raises(ValueError, match="found no place in 3 draws: fewer or smaller ones, or more overlap"):
            make("long_tailed_mnist", known, "train", 4, scale=(3.0, 4.0), distractors=(9, 10), overlap=0.0)

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            (
                with_item("labels", 5, 9, lambda label: 1 - label),
                ["scenes: labels_follow_recipe", "split train, id 5: labels_follow_recipe = False"],
            ),
            (with_item("difficult", 5, 2, lambda _: True), ["scenes: difficult", "split train, id 5"]),
            (
                lambda table: with_cell("image", 8, lambda _: table["image"][9].as_py())(table),
                ["scenes: difference_from_recipe", "split train, id 8", "scenes: pixels"],
            ),
            (
                with_item("distractor_shuffle", 6, 0, lambda way: (way + 1) % 48),
                ["scenes: difference_from_recipe", "split train, id 6"],
            ),
            (
                with_item("distractor_shuffle", 6, 0, lambda _: 99),
                ["distractors: shuffle_is_known", "split train, id 6, distractor 0"],
            ),
            (
                with_item("distractor_glyph", 6, 1, lambda _: 10**6),
                ["distractors: glyph_is_of_this_split", "split train, id 6, distractor 1"],
            ),
            (with_item("distractor_top", 6, 0, lambda _: -9.0), ["distractors: inside_canvas", "split train, id 6"]),
            (
                lambda table: table.set_column(
                    2, "labels", pa.array([[1] * 3 + [0] * 7] * len(table), table.schema.field("labels").type)
                ),
                ["scenes: label_2: expect_column_mean_to_be_between", "found"],
            ),
            (
                lambda table: table.set_column(
                    1, "image", encode_images(np.zeros((len(table), 64, 64), np.uint8), threads=1)
                ),
                ["digits: ink_in_box", "distractors: ink_in_box"],
            ),
        ],
        ids=[
            "label that is not drawn", "difficult", "image twice", "another shuffle", "unknown shuffle",
            "unknown distractor", "distractor outside", "too frequent", "nothing drawn",
        ],
    )  # fmt: skip
    def test_a_fault_is_named(self, check, change, expected):
        said = check("long_tailed_mnist", change)
        assert said is not None
        for part in expected:
            assert part in said


def with_caption(row, number, change):
    return with_item("captions", row, number, change)


def crossed(table):
    """Two scenes' captions exchanged with their twins'."""
    values = table["captions"].to_pylist()
    values[10], values[11] = values[11], values[10]
    kind = table.schema.field("captions").type
    return table.set_column(2, "captions", pa.array(values, kind))


class TestCaptions:
    @pytest.fixture(scope="class")
    def many(self, known):
        options = OPTIONS["captions"] | {"canvas": 64}
        recipe = captions.recipes(known["train"], 600, generator=generator(1, "test"), **options)
        return recipe, captions.sentences(recipe, canvas=64, generator=generator(2, "test"))

    def test_twins_have_exchanged_two_digits_and_nothing_else(self, many):
        recipe, _ = many
        for first in range(0, 600, 2):
            boxes = [
                {
                    label: tuple(getattr(recipe, name)[row, label].item() for name in ("size", "top", "left"))
                    for label in recipe.size[row].nonzero().flatten().tolist()
                }
                for row in (first, first + 1)
            ]
            moved = [label for label in boxes[0] if boxes[0][label] != boxes[1][label]]
            assert len(moved) == 2
            assert boxes[0][moved[0]] == boxes[1][moved[1]]
            assert boxes[0][moved[1]] == boxes[1][moved[0]]
            assert recipe.glyph[first].equal(recipe.glyph[first + 1])
            for row in (first, first + 1):
                sizes, ranks = recipe.size[row].tolist(), recipe.label_ranks[row].tolist()
                levels = sorted(size for size in sizes if size > 0)
                assert ranks == [levels.index(size) + 1 if size > 0 else 0 for size in sizes]

    def test_numbers_of_digits_are_equally_frequent(self, many):
        counts = (many[0].size[::2] > 0).sum(1).bincount(minlength=5)
        assert counts[:2].sum() == 0
        assert counts[2:].min() > 70

    def test_captions_are_true_and_four_of_five_false_of_the_twin(self, many):
        recipe, sentences = many
        columns = zip(*(getattr(recipe, name).tolist() for name in ("size", "top", "left")), strict=True)
        boxes = [{k: box for k, box in enumerate(zip(*values, strict=True)) if box[0] > 0} for values in columns]
        for row, several in enumerate(sentences):
            assert len(set(several)) == 5
            told = [captions.parse(caption) for caption in several]
            assert all(captions.holds(claim, boxes[row], canvas=64) is True for claims in told for claim in claims)
            false = [any(captions.holds(one, boxes[row ^ 1], canvas=64) is False for one in claims) for claims in told]
            assert sum(false) >= 4

    def test_the_grammar_uses_all_its_words_and_forms(self, many):
        text = "\n".join(caption for several in many[1] for caption in several)
        for words in captions.WORDS.values():
            for word in words:
                assert word in text
        for form in (
            r"^an? [a-z ]+ left of an? ", r"^there is an? [a-z ]+ over ", r"^the [a-z ]+ is over the ",
            r"^under an? [a-z ]+ is an? ", r"^under an? [a-z ]+ there is an? ", r"^the \w+ is bigger than the ",
            r"^there is an? \w+ and it is ", r"^the [a-z ]+ is bigger than it", r" and an? [a-z ]+ over the \w+$",
            r" and an? [a-z ]+ smaller than the \w+$", "an eight",
        ):  # fmt: skip
            assert pd.Series(text.split("\n")).str.contains(form).any(), form
        assert "a eight" not in text
        assert len(set(text.split("\n"))) > 0.8 * 3000

    @pytest.mark.parametrize(
        ("caption", "claims"),
        [
            ("a large three above an eight", [(3, "large", None), (3, "above", 8)]),
            ("there is a two to the left of a little one", [(1, "small", None), (2, "left", 1)]),
            ("the two is lower than the one", [(2, "below", 1)]),
            ("higher than a big two there is a one", [(2, "large", None), (1, "above", 2)]),
            ("the two over the one is not as big as it", [(2, "above", 1), (2, "smaller", 1)]),
            (
                "there is a two and it is bigger than the one and a small six right of the two",
                [(2, "larger", 1), (6, "small", None), (6, "right", 2)],
            ),
        ],
    )
    def test_a_caption_is_read_back(self, caption, claims):
        assert captions.parse(caption) == [captions.Claim(*claim) for claim in claims]

    @pytest.mark.parametrize(
        "caption", ["", " ", "a three", "a purple three above a seven", "a eight above a two", "an two above a one",
                    "a three above a seven and", "a three above", "a threeabove a seven"],
    )  # fmt: skip
    def test_what_is_no_caption_is_refused(self, caption):
        with pytest.raises(ValueError, match="is no sentence of the grammar"):
            captions.parse(caption)

    @pytest.mark.parametrize(
        ("claim", "truth"),
        [
            ((3, "above", 7), True),
            ((7, "below", 3), True),
            ((3, "below", 7), False),
            ((3, "left", 7), False),  # clearly above
            ((3, "left", 5), None),  # as far above as to the left
            ((5, "right", 3), None),
            ((5, "left", 3), False),
            ((3, "larger", 7), True),
            ((7, "larger", 3), False),
            ((3, "larger", 5), None),  # by a tenth
            ((5, "larger", 3), False),
            ((3, "large", None), True),
            ((7, "small", None), True),
            ((5, "small", None), False),
            ((3, "above", 9), False),  # there is no nine
            ((9, "large", None), False),
        ],
    )
    def test_a_claim_holds_clearly_or_not_at_all_or_between(self, claim, truth):
        boxes = {3: (22.0, 0.0, 0.0), 7: (10.0, 40.0, 4.0), 5: (20.0, 25.0, 25.0)}
        assert captions.holds(captions.Claim(*claim), boxes, canvas=64) is truth

    @pytest.mark.parametrize(
        ("rows", "option", "message"),
        [
            (5, {}, "5 rows after 0, expected even numbers"),
            (4, {"digits_per_image": (1, 3)}, "digits_per_image is 1 to 3, expected the smaller first, from 2 to 10"),
            (4, {"digits_per_image": (3, 2)}, "digits_per_image is 3 to 2"),
        ],
    )
    def test_impossible_options_are_refused(self, known, rows, option, message):
        with pytest.raises(ValueError, match=message):
            make("captions", known, "train", rows, **option)

    def test_says_when_digits_never_differ_clearly(self, known, monkeypatch):
        monkeypatch.setattr(captions, "ROUNDS", 3)
        with pytest.raises(ValueError, match="no two digits differ clearly in size and place after 3 draws"):
            make("captions", known, "train", 4, scale=(2.0, 2.1))

    def test_no_family_is_cut_by_folds_of_the_test_split(self, known):
        table = make("captions", known, "test", 50)
        family = table["family"].to_pylist()
        folds = [set(family[start : start + 10]) for start in range(0, 50, 10)]
        assert sum(len(fold) for fold in folds) == len(set(family)) == 25

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            (crossed, ["captions: true", "split train, id 10, number", "scenes: captions_false_of_twin"]),
            (
                with_caption(4, 2, lambda _: "a purple digit above a seven"),
                ["captions: understood", "split train, id 4, number 2: understood = False"],
            ),
            (
                with_caption(4, 2, lambda _: ""),
                ["captions: understood", "split train, id 4, number 2: understood = False"],
            ),
            (
                with_cell("captions", 4, lambda several: [several[0]] * 5),
                ["scenes: different_captions", "split train, id 4: different_captions = 1"],
            ),
            (
                with_cell("family", 4, lambda _: 30),
                ["scenes: twins_stand_together", "split train, id 4: twins_stand_together = False"],
            ),
            (
                lambda table: table.take([1, 0, *range(2, 80)]),
                None,
            ),
            (
                lambda table: table.take([0, 2, 1, *range(3, 80)]),
                ["scenes: twins_stand_together", "split train, id 2"],
            ),
            (
                with_item("top", 7, present, lambda _: 0.25),
                ["scenes: two_digits_are_exchanged", "split train, id 7", "scenes: difference_from_recipe"],
            ),
            (
                with_item("label_ranks", 7, present, lambda rank: rank + 1),
                ["scenes: ranks_follow_sizes", "split train, id 7"],
            ),
            (
                with_cell("image", 2, lambda _: None),
                ValueError("row 2: not a whole PNG"),
            ),
        ],
        ids=[
            "untrue", "unknown word", "empty caption", "the same five times", "family", "twins in the other order",
            "twins apart", "box moved", "rank", "no image",
        ],
    )  # fmt: skip
    def test_a_fault_is_named(self, check, change, expected):
        if isinstance(expected, ValueError):
            with pytest.raises(ValueError, match=str(expected)):
                check("captions", change)
            return
        said = check("captions", change)
        assert (said is None) == (expected is None)
        for part in expected or []:
            assert part in said

    def test_a_scene_with_too_few_captions_is_named(self, tables, tmp_path):
        table = tables["captions"]["val"]
        several = table["captions"].to_pylist()
        several[3] = several[3][:4]
        few = pa.array(several, pa.list_(pa.string()))
        pq.write_table(table.set_column(2, "captions", few), tmp_path / "val.parquet")
        with pytest.raises(ValueError, match=r"val\.parquet: row 3: captions are .* expected 5 texts"):
            captions.load(tmp_path, "val", threads=1)


def test_label_ranks_that_leave_one_out_do_not_follow_sizes():
    sizes = torch.tensor([[2.0, 5.0], [2.0, 5.0]])
    assert facts.ranks_follow_sizes(torch.tensor([[1, 2], [1, 3]]), sizes).tolist() == [True, False]


def test_cameras_drift_and_zoom_both_ways_alike(known):
    recipe = clips.recipes(known["train"], 300, generator=generator(1, "test"), **OPTIONS["clips"])
    for moves in (recipe.drift[:, 0] / 0.5, recipe.drift[:, 1] / 0.5, recipe.zoom.log() / np.log(1.05)):
        assert moves.min().item() == pytest.approx(-1, abs=0.05)
        assert moves.max().item() == pytest.approx(1, abs=0.05)
        assert moves.mean().item() == pytest.approx(0, abs=0.15)
