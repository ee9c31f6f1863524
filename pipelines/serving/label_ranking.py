"""What MLflow runs for a registered label ranker: encoded images in, ordered labels with scores out."""

import mlflow
import pandas as pd

from rankops.tables import decode_image
from rankops.tasks.label_ranking import label_ranks_of, load


class LabelRanking(mlflow.pyfunc.PythonModel):
    def load_context(self, context) -> None:
        self.ranker = load(context.artifacts["weights"])
        self.colours = self.ranker.scorer.recipe["args"].get("colours", 3)

    def predict(self, context, model_input: pd.DataFrame, params=None) -> pd.DataFrame:
        """`labels` (the selected ones, the most important first), `label_ranks` and `scores` of each image.

        Args:
            model_input: a column `image` of encoded images (PNG bytes); any number of rows, sizes may differ.
        """
        rows = []
        for number, encoded in enumerate(model_input["image"]):
            scores, thresholds = self.ranker(decode_image(encoded, colours=self.colours, where=f"row {number}"))
            label_ranks = label_ranks_of(scores, scores > thresholds)[0]
            order = label_ranks.argsort(descending=True, stable=True)[: int((label_ranks > 0).sum())]
            rows.append({"labels": order.tolist(), "label_ranks": label_ranks.tolist(), "scores": scores[0].tolist()})
        return pd.DataFrame(rows, columns=["labels", "label_ranks", "scores"])


mlflow.models.set_model(LabelRanking())
