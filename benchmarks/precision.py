"""How many times faster trainings are in half precision, or compiled, than without, for each scoring network."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

from benchmarks.results import write
from benchmarks.training import ROUNDS, fitted, random_scenes
from pipelines.config.schema import load

NETWORKS = {"convnet": {"channels": [32, 64, 96]}, "mobilenet_v3_small": {}}
PLAIN = ("no", "NO")
WAYS = {
    "bf16": ("bf16", "NO"),
    "fp16": ("fp16", "NO"),
    "compiled": ("no", "INDUCTOR"),
    "bf16, compiled": ("bf16", "INDUCTOR"),
}


def speed(name: str, precision: str, backend: str) -> float:
    """Images a second of label ranking with one of the networks, after what compiling takes."""
    os.environ["ACCELERATE_DYNAMO_BACKEND"] = backend
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
    ways = {way: how for way, how in WAYS.items() if on_gpu or how[0] != "fp16"}
    # accelerate keeps to one precision for the life of a process.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as process:
        for name in NETWORKS:
            speeds: dict[tuple[str, str], list[float]] = {how: [] for how in (PLAIN, *ways.values())}
            for _ in range(ROUNDS):
                for how, found in speeds.items():
                    found.append(process.submit(speed, name, *how).result())
            for way, how in ways.items():
                ratios = sorted(faster / plain for faster, plain in zip(speeds[how], speeds[PLAIN], strict=True))
                figures[f"{name}, {params.ranked_mnist.canvas} px, {way}"] = {
                    "times": ratios[ROUNDS // 2], "lowest": ratios[0], "highest": ratios[-1],
                    "images/s in float32": sorted(speeds[PLAIN])[ROUNDS // 2],
                }  # fmt: skip
    torch.set_num_threads(params.compute.threads)
    write("precision", figures)


if __name__ == "__main__":
    main()
