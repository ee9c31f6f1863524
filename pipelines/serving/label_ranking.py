"""What MLflow runs for a registered label ranker: encoded images in, ordered labels with scores out."""

from io import BytesIO

import mlflow
import numpy as np
import pandas as pd
import torch
from PIL import Image

from rankops.tasks.label_ranking import label_ranks_of, load_ranker


class LabelRanking(mlflow.pyfunc.PythonModel):
    def load_context(self, context) -> None:
        self.ranker = load_ranker(context.artifacts["weights"])

    def predict(self, context, model_input: pd.DataFrame, params=None) -> pd.DataFrame:
        """`labels` (the selected ones, the most important first), `label_ranks` and `scores` of each image.

        Args:
            model_input: a column `image` of encoded images (PNG bytes); any number of rows, sizes may differ.
        """
        rows = []
        for number, encoded in enumerate(model_input["image"]):
            try:
                with Image.open(BytesIO(encoded)) as image:
                    pixels = torch.from_numpy(np.array(image.convert("L")))
            except (OSError, ValueError, TypeError) as error:
                raise ValueError(f"row {number}: not a readable image ({error}); expected encoded PNG bytes") from error
            scores, thresholds = self.ranker(pixels.unsqueeze(0))
            label_ranks = label_ranks_of(scores, scores > thresholds)[0]
            order = label_ranks.argsort(descending=True, stable=True)[: int((label_ranks > 0).sum())]
            rows.append({"labels": order.tolist(), "label_ranks": label_ranks.tolist(), "scores": scores[0].tolist()})
        return pd.DataFrame(rows, columns=["labels", "label_ranks", "scores"])


mlflow.models.set_model(LabelRanking())
