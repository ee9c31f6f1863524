"""The metrics that the papers print, under the names that a run's metrics have; nothing is computed here."""

__all__ = ["ABOUT", "LENGTH", "SORTERS", "printed"]

_RANKED = ("ranked.precision", "ranked.recall", "ranked.f1", "ranked.accuracy", "ranked.exact_match",
           "ranked.mean_average_precision")  # fmt: skip
_UNRANKED = ("unranked.precision", "unranked.recall", "unranked.f1", "unranked.accuracy", "unranked.exact_match")


def _row(*percentages: str) -> dict[str, str]:
    """Return a row of RLSEP's tables, printed in per cent, as shares."""
    shares = (" ± ".join(f"{float(part) / 100:.3f}" for part in text.split(" ± ")) for text in percentages)
    return dict(zip(_RANKED + _UNRANKED, shares, strict=True))


def _recalls(captions: str, images: str) -> dict[str, str]:
    """Return recall at 1, 5 and 10, of captions and of images."""
    names = [f"{direction}.recall_at_{k}" for direction in ("image_to_text", "text_to_image") for k in (1, 5, 10)]
    return dict(zip(names, [*captions.split(), *images.split()], strict=True))


# RLSEP's Tables 1 and 2: by the number of training images, and by the loss.
_RANKED_MNIST = {
    5_000: {
        "multilabel_cross_entropy": _row("85.5 ± 0.7", "85.9 ± 1.2", "85.7 ± 0.6", "87.1 ± 0.4", "5.9 ± 2.2",
                              "79.5 ± 0.8", "97.4 ± 0.7", "98.0 ± 0.6", "97.7 ± 0.3", "97.4 ± 0.4", "81.9 ± 3.2"),
        "lsep": _row("85.7 ± 0.9", "86.1 ± 1.0", "85.9 ± 0.6", "87.4 ± 0.5", "5.5 ± 1.7", "79.4 ± 1.2",
                     "98.6 ± 0.5", "97.3 ± 0.5", "97.9 ± 0.4", "97.8 ± 0.4", "83.3 ± 3.5"),
        "rlsep": _row("95.9 ± 0.5", "97.1 ± 0.7", "96.5 ± 0.5", "97.0 ± 0.4", "45.4 ± 5.6", "93.6 ± 0.6",
                      "97.9 ± 0.7", "98.0 ± 0.7", "97.9 ± 0.6", "97.7 ± 0.6", "82.7 ± 4.9"),
    },
    60_000: {
        "multilabel_cross_entropy": _row("86.4", "87.1", "86.8", "87.6", "5.7", "80.4", "99.1", "99.3", "99.2",
                                         "99.1", "94.3"),
        "lsep": _row("85.8", "88.6", "87.2", "87.8", "5.6", "79.3", "99.1", "98.7", "98.9", "98.8", "91.8"),
        "rlsep": _row("98.5", "98.7", "98.6", "98.8", "72.6", "95.9", "99.1", "99.1", "99.1", "99.0", "93.3"),
    },
}  # fmt: skip
# RLSEP's Table 2, ARC.
_ARC = {
    "multilabel_cross_entropy": _row(
        "80.2", "81.8", "81.0", "82.1", "12.8", "75.6", "58.2", "73.3", "64.9", "79.7", "10.8"
    ),
    "lsep": _row("79.8", "81.4", "80.6", "82.0", "9.6", "75.6", "55.1", "81.4", "65.8", "77.9", "6.9"),
    "rlsep": _row("80.4", "82.3", "81.3", "82.1", "14.0", "76.8", "55.3", "78.7", "65.0", "77.8", "9.3"),
}
# By the task, the dataset that was measured, and the number of training images, or "".
_PRINTED = {
    ("label_ranking", "ranked_mnist"): {f"{images:,}": rows for images, rows in _RANKED_MNIST.items()},
    ("label_ranking", "arc"): {"": _ARC},
    # SoDeep's Tables 2 (ResNet-34), 4 (WILDCAT) and 3 (DSVE).
    ("score_ranking", "videomem"): {"": {"mse": {"spearman": "0.442"}, "spearman": {"spearman": "0.466"}}},
    ("multilabel", "voc2007"): {
        "": {
            "multilabel_soft_margin": {"mean_average_precision": "0.932"},
            "sodeep_mean_average_precision": {"mean_average_precision": "0.940"},
        }
    },
    ("retrieval", "coco_captions"): {
        "": {
            "hard_negative_triplet": _recalls("0.698 0.919 0.966", "0.559 0.869 0.940"),
            "sodeep_recall": _recalls("0.715 0.928 0.971", "0.562 0.870 0.943"),
        }
    },
}
# SoDeep's Table 1: L1 / d at this d.
LENGTH = 100
SORTERS = {"handcrafted": "0.0350", "cnn": "0.0120", "lstm": "0.0033"}
# What else the papers say of their figures.
ABOUT = {
    ("label_ranking", "ranked_mnist"): (
        "images of 224 px, their number in brackets; for 5,000, means of 30 networks on 100 test images"
    ),
    ("score_ranking", "videomem"): "trained on LaMem too",
    ("retrieval", "coco_captions"): "galleries of 1,000 images",
}


def printed(task: str, dataset: str, loss: str) -> dict[str, dict[str, str]]:
    """Return the metrics that the papers print for a loss on a dataset, by the number of training images, or "".

    There are none for data that the papers did not measure.

    Args:
        task, loss: names in the params.
        dataset: file in rankgrad/datasets.

    >>> printed("label_ranking", "ranked_mnist", "rlsep")["5,000"]["ranked.exact_match"]
    '0.454 ± 0.056'
    >>> printed("score_ranking", "videomem", "mse"), printed("score_ranking", "clips", "mse")
    ({'': {'spearman': '0.442'}}, {})
    """
    tables = _PRINTED.get((task, dataset), {})
    return {images: rows[loss] for images, rows in tables.items() if loss in rows}
