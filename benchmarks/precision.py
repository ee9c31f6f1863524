"""How many times faster trainings are in half precision than in float32 on this machine, for each scoring network."""

import torch

from benchmarks.results import write
from benchmarks.training import ROUNDS, fitted, random_scenes
from pipelines.settings import load

NETWORKS = {"convnet": {"channels": [32, 64, 96]}, "mobilenet_v3_small": {}}
HALF = ("bf16", "fp16")


def main() -> None:
    params = load()
    torch.set_num_threads(params.compute.threads)
    loss = params.runs["label_ranking-rlsep"].model_dump()["loss"]
    training = params.training.label_ranking.model_dump()
    canvas, device = params.ranked_mnist.canvas, params.compute.device
    scenes = random_scenes(canvas)
    on_gpu = device != "cpu" and torch.cuda.is_available()
    figures = {}
    for name, arguments in NETWORKS.items():
        model = {"name": name, "args": arguments}
        speeds: dict[str, list[float]] = {precision: [] for precision in ("no", *(HALF if on_gpu else HALF[:1]))}
        for _ in range(ROUNDS):
            for precision, found in speeds.items():
                found.append(fitted(*scenes, model, loss, training, device, precision))
        for precision in list(speeds)[1:]:
            ratios = sorted(half / full for half, full in zip(speeds[precision], speeds["no"], strict=True))
            figures[f"{name}, {canvas} px, {precision}"] = {
                "times": ratios[ROUNDS // 2], "lowest": ratios[0], "highest": ratios[-1],
                "images/s in float32": sorted(speeds["no"])[ROUNDS // 2],
            }  # fmt: skip
    write("precision", figures)


if __name__ == "__main__":
    main()
