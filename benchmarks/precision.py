"""How many times faster trainings are in half precision than in float32 on this machine, for each scoring network."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

from benchmarks.results import write
from benchmarks.training import ROUNDS, fitted, random_scenes
from pipelines.settings import load

NETWORKS = {"convnet": {"channels": [32, 64, 96]}, "mobilenet_v3_small": {}}
HALF = ("bf16", "fp16")


def speed(name: str, precision: str) -> float:
    """Images a second of label ranking with one of the networks."""
    params = load()
    torch.set_num_threads(params.compute.threads)
    run, training = params.runs["label_ranking-rlsep"], params.training.label_ranking.model_dump()
    model, loss = {"name": name, "args": NETWORKS[name]}, run.loss.model_dump()
    scenes = random_scenes(params.ranked_mnist.canvas)
    return fitted(*scenes, model, loss, training, params.compute.device, precision)


def main() -> None:
    params = load()
    on_gpu = params.compute.device != "cpu" and torch.cuda.is_available()
    figures = {}
    # accelerate keeps to one precision for the life of a process.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as process:
        for name in NETWORKS:
            speeds: dict[str, list[float]] = {precision: [] for precision in ("no", *(HALF if on_gpu else HALF[:1]))}
            for _ in range(ROUNDS):
                for precision, found in speeds.items():
                    found.append(process.submit(speed, name, precision).result())
            for precision in list(speeds)[1:]:
                ratios = sorted(half / full for half, full in zip(speeds[precision], speeds["no"], strict=True))
                figures[f"{name}, {params.ranked_mnist.canvas} px, {precision}"] = {
                    "times": ratios[ROUNDS // 2], "lowest": ratios[0], "highest": ratios[-1],
                    "images/s in float32": sorted(speeds["no"])[ROUNDS // 2],
                }  # fmt: skip
    torch.set_num_threads(params.compute.threads)
    write("precision", figures)


if __name__ == "__main__":
    main()
