"""What is reproduced of the papers, as data: `python -m studies.reproduced` prints each result's command and its time.

`studies.pages` writes the tables of docs/papers.md from it. Our numbers are those of kept studies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipelines.reporting.results import markdown
from studies.kept import Study, read
from studies.papers import SORTERS, printed

__all__ = ["PAPERS", "Number", "Result", "Results"]

IN_STUDIES = "cd studies && dvc repro"
GPU = "python -m studies.gpu"


@dataclass(frozen=True)
class Number:
    """A number of a kept study.

    Attributes:
        name: what it is, as the table shows it.
        study, run, metric: where it is.
        minus: another run, whose value is subtracted.
        form: how it is shown.
        scale: what it is multiplied with, 100 for per cent.
    """

    name: str
    study: str
    run: str
    metric: str
    minus: str | None = None
    form: str = ".3f"
    scale: float = 1.0

    def text(self) -> str:
        study = read(self.study)
        values = self.scale * self._values(study)
        spread = f" ± {values.std(ddof=1):{self.form.removeprefix('+')}}" if len(values) > 1 else ""
        return f"{self.name} {values.mean():{self.form}}{spread}"

    def seeds(self) -> int:
        return len(self._values(read(self.study)))

    def _values(self, study: Study) -> np.ndarray:
        """Return the value of each seed, or the one value of what has no seeds; a difference is of common seeds."""
        values = _by_seed(study, self.run, self.metric)
        if self.minus is not None:
            values = (values - _by_seed(study, self.minus, self.metric)).dropna()
        return values.to_numpy()


def _by_seed(study: Study, run: str, metric: str) -> pd.Series:
    return pd.Series(study.by_seed(run, metric) or {0: study.leaf(run, metric)[0]})


@dataclass(frozen=True)
class Result:
    """A table, figure or claim of a paper.

    Attributes:
        item: where the paper has it.
        theirs: what the paper reports.
        ours: what was kept; nothing if it was not reached.
        differs: in what our configuration differs; if nothing was kept, why.
        command: what makes it.
        time: how long that takes, measured or estimated.
    """

    item: str
    theirs: str
    ours: Sequence[Number]
    differs: str
    command: str
    time: str

    def __post_init__(self) -> None:
        if not (self.differs and self.command and self.time):
            raise ValueError(f"{self.item}: expected what differs, a command and a time")

    def row(self) -> list[str]:
        ours = "; ".join(number.text() for number in self.ours) or "not reached"
        seeds = sorted({number.seeds() for number in self.ours})
        machines = {number.study: _hardware(read(number.study)) for number in self.ours}
        shown = [self.item, self.theirs, ours, " and ".join(map(str, seeds)), self.differs, f"`{self.command}`"]
        return [*shown, self.time, "; ".join(dict.fromkeys(machines.values()))]


def _hardware(study: Study) -> str:
    machine = study.made_by["machine"]
    return machine["gpu"] or f"{machine['processor']}, {machine['threads']} threads".replace("1 threads", "1 thread")


@dataclass(frozen=True)
class Results:
    """The table of a paper."""

    results: Sequence[Result]

    def text(self) -> str:
        columns = ["item", "paper", "ours", "seeds", "what differs", "command", "time", "hardware"]
        return markdown(columns, [result.row() for result in self.results])


def _percent(name: str, study: str, run: str, metric: str, minus: str | None = None) -> Number:
    return Number(name, study, run, metric, minus, form=".1f" if minus is None else "+.1f", scale=100)


def _printed(task: str, dataset: str, metric: str, losses: Mapping[str, str], images: str = "") -> str:
    """Return what the papers print of losses, in per cent."""
    cells = []
    for name, loss in losses.items():
        parts = printed(task, dataset, loss)[images][metric].split(" ± ")
        cells.append(f"{name} " + " ± ".join(f"{100 * float(part):.1f}" for part in parts))
    return "; ".join(cells)


LOSSES = {"cross-entropy": "multilabel_cross_entropy", "LSEP": "lsep", "RLSEP": "rlsep"}


def _losses(study: str, suffix: str, metric: str) -> list[Number]:
    """Return a metric of the three losses of RLSEP's tables, in per cent."""
    return [_percent(name, study, f"label_ranking-{loss}-{suffix}", metric) for name, loss in LOSSES.items()]


def _of_paper(images: str, metric: str) -> str:
    return _printed("label_ranking", "ranked_mnist", metric, LOSSES, images)


def _margins(study: str, suffix: str, metric: str) -> list[Number]:
    """Return by how many points RLSEP is better than its rivals."""
    run = f"label_ranking-rlsep-{suffix}"
    return [
        _percent(f"over {name}", study, run, metric, f"label_ranking-{loss}-{suffix}")
        for name, loss in LOSSES.items()
        if loss != "rlsep"
    ]


OUR_RECIPE = (
    "AdamW, a cosine, moved images, 30 epochs; the paper has SGD at 0.001 for up to 300; 10,000 test images, not 100"
)
OUR_RECIPE_60_000 = (
    "AdamW, a cosine, moved images, 25 epochs; the paper has SGD at 0.001 for up to 300; scenes are drawn here"
)
SMALL = "64 px, and a small convnet with attention for each label"
CLIPS = "clips drawn here, heads on frozen features of 64 px"
MAP = {"soft margin": "multilabel_soft_margin", "with Eq. 7": "sodeep_mean_average_precision"}
RECALL = {"triplet": "hard_negative_triplet", "SoDeep": "sodeep_recall"}
NOT_PUBLIC = "the videos are given on request"

SODEEP = [
    Result(
        "Table 1: handcrafted sorter, L1 / d at d = 100",
        SORTERS["handcrafted"],
        [Number("steepness 10", "sodeep_table_1", "handcrafted", "l1", form=".4f")],
        "other draws of the same ten kinds of vectors",
        f"{IN_STUDIES} benchmark_sorters",
        "minutes",
    ),
    Result(
        "Table 1: CNN",
        SORTERS["cnn"],
        [
            Number("the paper's kernels", "sodeep_table_1", "cnn-unpadded", "l1", form=".4f"),
            Number("padded and dilated", "sodeep_table_1", "cnn", "l1", form=".4f"),
        ],
        "32 channels and 10 million vectors, the dilated one 1.5 million; about 40 million in the paper. Not reached",
        f"{IN_STUDIES} benchmark_sorters",
        "at the paper's size 14 hours on two cores with 64 channels, 33 with 100",
    ),
    Result(
        "Table 1: LSTM",
        SORTERS["lstm"],
        [
            Number("trained", "sodeep_table_1", "lstm", "l1", form=".4f"),
            Number("weights set by a formula, 256 cells", "sodeep_table_1", "lstm-256_cells", "l1", form=".4f"),
        ],
        "trained on a GPU, with a tenth of the paper's vectors: not reached by training. The formula trains nothing",
        f"{GPU} --pieces sodeep",
        "at the paper's size about an hour of an H100, 25 days on two cores",
    ),
    Result(
        "Fig. 4: training curves of CNNs by depth; no gain beyond 8 layers",
        "a plot",
        [
            Number(run, "paper_figures", run, "l1", form=".4f")
            for run in ("cnn-2_layers", "cnn-4_layers", "cnn-6_layers", "cnn", "cnn-10_layers")
        ],
        "final L1 / d in place of curves, d = 32, padded kernels; `cnn` has 8 layers. d = 100 was not run",
        f"{IN_STUDIES} figures/dvc.yaml",
        "minutes at d = 32; at d = 100 about 14 hours a depth on two cores",
    ),
    Result(
        "Fig. 5: ranks of a score that moves from -1 to 1",
        "a plot",
        [
            Number("LSTM, mean error in positions", "paper_figures", "lstm", "sweep.mean"),
            Number("CNN", "paper_figures", "cnn", "sweep.mean"),
            Number("handcrafted", "paper_figures", "handcrafted", "sweep.mean"),
        ],
        "d = 32 in place of 100",
        f"{IN_STUDIES} figures/dvc.yaml",
        "minutes",
    ),
    Result(
        "Fig. 6: Eq. 7 with the LSTM minus Hinge-AP, by the fraction of flipped labels",
        "on par in a plot",
        [
            _percent(f"{flipped} % flipped", "flipped_labels", f"points-lstm-{flipped}",
                     "mean_average_precision", f"points-hinge_ap-{flipped}")
            for flipped in (0, 10, 20, 30, 40)
        ],
        "points of mAP, lists of 32; a third of the chosen rates are at an end of the grid. Not reproduced",
        f"python -m studies.points && {IN_STUDIES} --glob 'evaluate@points-*'",
        "an hour on two cores; with seven rates in place of four about 1.5",
    ),
    Result(
        "Sec. 4.1.4: seconds of the LSTM over those of the CNN",
        "1.7",
        [Number("times", "sodeep_speed", "lstm", "seconds over those of cnn-unpadded", form=".1f")],
        "forward and backward on one thread of a processor; an LSTM of 18.7 million weights, a CNN of 64 channels",
        "python -m studies.times.sodeep",
        "a minute",
    ),
    Result(
        "Sec. 4.2.1: the loss with each sorter, on VideoMem",
        "Spearman: LSTM 49.4, CNN 46.6, handcrafted 45.7, L1 46.2",
        [],
        f"{NOT_PUBLIC}; fourteen sorters and L1 are configured: {CLIPS}",
        f"{IN_STUDIES} --glob 'evaluate@memorability_sorters-*'",
        "estimated from one run: 40 minutes on one free core (3 minutes for each of 15 losses)",
    ),
    Result(
        "Sec. 4.2: an L1 loss beside the loss, first or throughout; a sorter that is fine-tuned",
        "no numbers",
        [],
        f"{CLIPS}; L1 first, throughout or not at all, and a sorter that learns on, alone or jointly, are configured",
        f"{IN_STUDIES} --glob 'evaluate@memorability_factors-*'",
        "estimated from one run: 20 minutes on one free core, and as much for group sizes of 16 to 512",
    ),
    Result(
        "Table 2: VideoMem with LaMem, ResNet-34: Spearman",
        _printed("score_ranking", "videomem", "spearman", {"MSE": "mse", "SoDeep": "spearman"}),
        [],
        f"{NOT_PUBLIC}; the formats are read, see [VideoMem](real_data.md#videomem-videomem)",
        "dvc repro evaluate@<run>",
        "about 25 hours of an H100",
    ),
    Result(
        "the claim of Table 2: the loss has a higher Spearman correlation than MSE",
        "+2.4 points",
        [_percent("LSTM minus MSE", "all_of_mnist", "memorability-spearman-lstm", "spearman", "memorability-mse")],
        f"{CLIPS}, scored in sessions; MSE with each session centered is as good as the loss",
        "make repro",
        "15 to 30 minutes on two cores",
    ),
    Result(
        "Table 3: COCO captions, DSVE: R@1 of captions",
        _printed("retrieval", "coco_captions", "image_to_text.recall_at_1", RECALL),
        [],
        "the data and a GPU are needed; the formats are read, see [COCO](real_data.md#coco-captions-coco_captions)",
        "dvc repro evaluate@<run>",
        "25 to 40 hours of an H100",
    ),
    Result(
        "the claim of Table 3: the loss finds more captions first than the triplet",
        "+1.7 points",
        [
            _percent("recall loss minus triplet", "all_of_mnist", "retrieval-sodeep_recall-lstm",
                     "image_to_text.recall_at_1", "retrieval-hard_negative_triplet"),
        ],
        "captions made here, heads on frozen features, the loss alone in every epoch. Not reproduced",
        "make repro",
        "15 to 30 minutes on two cores",
    ),
    Result(
        "Table 4: VOC 2007, WILDCAT: mAP",
        _printed("multilabel", "voc2007", "mean_average_precision", MAP),
        [],
        "the data and a GPU are needed; the formats are read, see [VOC](real_data.md#voc-2007-voc2007)",
        "dvc repro evaluate@<run>",
        "about 9 hours of an H100",
    ),
    Result(
        "the claim of Table 4: added to soft margin, Eq. 7 has a higher mAP",
        "+0.8 points",
        [
            _percent("on made scenes", "heads", "heads-scenes-sodeep_mean_average_precision_and_soft_margin",
                     "mean_average_precision", "heads-scenes-soft_margin-batch64"),
        ],
        "scenes drawn here, heads on frozen features; sums divided by the positives. Not reproduced",
        f"{IN_STUDIES} --glob 'evaluate@heads-scenes-*'",
        "half an hour on one core",
    ),
    Result(
        "Sec. 3.2.3: recall at K (Eq. 8) could not be trained",
        "no conclusive results",
        [
            _percent("R@1 of captions, mean_log_rank minus triplet", "all_of_mnist", "retrieval-mean_log_rank-laplace",
                     "image_to_text.recall_at_1", "retrieval-hard_negative_triplet"),
        ],
        "the logarithm of the rank in place of the step at K, batches of 256, captions made here",
        "make repro",
        "15 to 30 minutes on two cores",
    ),
]  # fmt: skip

RLSEP = [
    Result(
        "Table 1: ranked 0-1, 5,000 images of 224 px",
        _of_paper("5,000", "ranked.exact_match"),
        _losses("subset_224", "shifted", "ranked.exact_match"),
        OUR_RECIPE,
        f"{GPU} --pieces table_1",
        "5 minutes of an H100; 30 seeds half an hour",
    ),
    Result(
        "Table 1: unranked 0-1",
        _of_paper("5,000", "unranked.exact_match"),
        _losses("subset_224", "shifted", "unranked.exact_match"),
        f"{OUR_RECIPE}; here RLSEP is worse than cross-entropy",
        f"{GPU} --pieces table_1",
        "5 minutes of an H100; 30 seeds half an hour",
    ),
    Result(
        "Table 1: RLSEP has more in every ranked metric (p < 0.01); points of ranked accuracy",
        _of_paper("5,000", "ranked.accuracy"),
        _margins("table_1", "label_attention", "ranked.accuracy"),
        f"{SMALL}, tested on 2,000 images; every ranked metric has p < 0.001, see [the table](table_1.md)",
        "make -C studies label-ranking SCALE=table_1 RUNS='*-label_attention'",
        "about 3 hours on two cores",
    ),
    Result(
        "Table 1 by the paper's own protocol: SGD at 0.001, patience of 20, the authors' scenes",
        _printed("label_ranking", "ranked_mnist", "ranked.exact_match", {"RLSEP": "rlsep"}, "5,000"),
        [],
        "configured, not run to its stop",
        f"{GPU} --pieces own_protocol",
        "about 20 minutes of an H100 for three seeds; on two cores 2.2 hours a run at 112 px, up to 11.8 at 224 px",
    ),
    Result(
        "Table 2: ranked 0-1, 60,000 images of 224 px",
        _of_paper("60,000", "ranked.exact_match"),
        _losses("full_224", "shifted", "ranked.exact_match"),
        OUR_RECIPE_60_000,
        f"{GPU} --pieces table_2",
        "5 minutes of an H100; three seeds 10 minutes",
    ),
    Result(
        "Table 2: unranked 0-1",
        _of_paper("60,000", "unranked.exact_match"),
        _losses("full_224", "shifted", "unranked.exact_match"),
        OUR_RECIPE_60_000,
        f"{GPU} --pieces table_2",
        "5 minutes of an H100; three seeds 10 minutes",
    ),
    Result(
        "Table 2 and Fig. 4: ARC, ranked 0-1",
        _printed("label_ranking", "arc", "ranked.exact_match", LOSSES),
        [],
        "the photographs are given on request; the format is read, see [ARC](real_data.md#arc-arc)",
        "dvc repro evaluate@<run>",
        "about an hour of a GPU",
    ),
    Result(
        "Fig. 1: scores follow sizes over 30 frames",
        "a plot",
        [
            Number("Spearman of score and size: growing digit", "paper_figures", "label_ranking-rlsep-label_attention",
                   "digit_1.spearman"),
            Number("shrinking digit", "paper_figures", "label_ranking-rlsep-label_attention", "digit_3.spearman"),
        ],
        f"{SMALL}; RLSEP alone, in the paper too",
        f"{IN_STUDIES} figures/dvc.yaml",
        "minutes after the label ranker",
    ),
    Result(
        "Fig. 2: predicted rankings of three losses on six images",
        "pictures",
        [],
        "not drawn; [a sheet of images](results.md#losses) of the default run is near",
        "make repro",
        "15 to 30 minutes on two cores",
    ),
    Result(
        "Fig. 3: scores by scale, on images of four digits",
        "a plot: scores rise with scale and overlap more at large scales",
        [
            Number(f"scale {scale}", "paper_figures", "label_ranking-rlsep-label_attention", f"scale_{scale}.mean",
                   form=".1f")
            for scale in (1, 2, 3, 4)
        ],
        f"{SMALL}; deviations grow with scale as in the paper, see [figures](experiments.md#the-papers-figures)",
        f"{IN_STUDIES} figures/dvc.yaml",
        "minutes after the label ranker",
    ),
    Result(
        "Fig. 5: LSEP falls with the number of digits, RLSEP does not",
        "a plot",
        [
            _percent(f"{name}, {digits} digits", "paper_figures", f"label_ranking-{loss}-{digits}_digits",
                     f"accuracy.{digits}_digits")
            for name, loss in (("RLSEP", "rlsep"), ("LSEP", "lsep")) for digits in (2, 6, 10)
        ],
        f"ranked accuracy; {SMALL}; from seven digits on boxes may overlap by half",
        f"{IN_STUDIES} figures/dvc.yaml",
        "about an hour on two cores",
    ),
    Result(
        "Fig. 5: RLSEP that saw three digits only, minus LSEP that saw more",
        "better in a plot",
        [
            _percent(f"{digits} digits", "paper_figures", "label_ranking-rlsep-3_digits",
                     f"accuracy.{digits}_digits", f"label_ranking-lsep-{digits}_digits")
            for digits in (4, 6, 10)
        ],
        f"points of ranked accuracy; {SMALL}",
        f"{IN_STUDIES} figures/dvc.yaml",
        "about an hour on two cores",
    ),
    Result(
        "Sec. 4: t random pairs of each image",
        "no numbers",
        [
            _percent(name, "pairs", f"label_ranking-rlsep-{run}", "ranked.exact_match")
            for name, run in (("all pairs", "label_attention"), ("10", "10_pairs"), ("3", "3_pairs"))
        ],
        f"ranked 0-1; {SMALL}",
        f"{IN_STUDIES} --glob 'evaluate@label_ranking-rlsep-*_pairs'",
        "half an hour on two cores",
    ),
]  # fmt: skip

UNIMLR = [
    Result(
        "GaussianMLR minus RLSEP, ranked 0-1 on gray Ranked MNISTs",
        "its numbers were not at hand",
        [
            _percent(name, "shaded_mnist", f"label_ranking-gaussian_mlr-shaded-{run}",
                     "ranked.exact_match", f"label_ranking-rlsep-shaded-{run}")
            for name, run in (("size", "size"), ("brightness", "brightness"), ("both, by size", "both_by_size"),
                              ("both, by brightness", "both_by_brightness"))
        ],
        "64 px, 5,000 images, a small network, a fixed variance; in the paper 224 px, 60,000 and ResNet-18",
        f"{IN_STUDIES} --glob 'evaluate@label_ranking-*-shaded-*'",
        "an hour on two cores",
    ),
    Result(
        "GaussianMLR with its predicted variance minus RLSEP, ranked accuracy on orders of people's votes",
        "other data",
        [
            _percent(name, "human_orders", f"{name}, gaussian_mlr", "accuracy", f"{name}, rlsep")
            for name in ("SBU_3DFE", "emotion6", "Movie")
        ],
        "public tables of features and one hidden layer, in place of images",
        "python -m studies.human_orders",
        "about 15 minutes on one free core",
    ),
    Result(
        "colored Ranked MNISTs",
        "its numbers were not at hand",
        [],
        "not built",
        "none",
        "about as long as the gray ones",
    ),
]  # fmt: skip

PAPERS = {"sodeep": SODEEP, "rlsep": RLSEP, "unimlr": UNIMLR}


def main() -> None:
    """Print the command of each result, and how long it takes."""
    for results in PAPERS.values():
        for result in results:
            print(f"{result.item}\n    {result.command}    # {result.time}")


if __name__ == "__main__":
    main()
