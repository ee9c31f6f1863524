"""Load the champion from MLflow and rank the digits in a picture; load a registered sorter for a loss.

Run it in the project's top folder, where `make repro` has registered models, or set MLFLOW_TRACKING_URI.
"""

import io
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from rankgrad.losses import spearman
from rankgrad.sorters import load_sorter

os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
try:
    import mlflow
    from PIL import Image
except ModuleNotFoundError as error:
    sys.exit(f"This example needs the package {error.name}: pip install '.[pipeline]'")

address = os.environ.get("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
if address == "sqlite:///mlflow.db" and not Path("mlflow.db").is_file():
    sys.exit("No models are registered here: run `make repro` first, or set MLFLOW_TRACKING_URI")
mlflow.set_tracking_uri(address)

# A picture of any size: the model itself prepares it. Here: a bar, like a large 1.
canvas = np.zeros((64, 64), np.uint8)
canvas[12:52, 30:35] = 255
picture = io.BytesIO()
Image.fromarray(canvas).save(picture, "PNG")

model = mlflow.pyfunc.load_model("models:/label_ranking-ranked_mnist@champion")
(answer,) = model.predict(pd.DataFrame({"image": [picture.getvalue()]})).to_dict("records")
print("labels, the most important first:", answer["labels"])

sorter = load_sorter("models:/sorter-lstm@champion")  # SoDeep's sorter, for groups of its own length
scores, target = torch.randn(4, sorter.length, requires_grad=True), torch.rand(4, sorter.length)
print(f"Spearman loss with {type(sorter).__name__}: {spearman(scores, target, sorter=sorter):.3f}")
