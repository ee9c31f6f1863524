"""What MLflow runs for a registered multi-label classifier: encoded images in, a score for each label out."""

import mlflow
import pandas as pd

from rankops.tables import decode_image
from rankops.tasks.multilabel import load


class MultiLabel(mlflow.pyfunc.PythonModel):
    def load_context(self, context) -> None:
        self.classifier = load(context.artifacts["weights"])
        self.colours = self.classifier.network.recipe["args"].get("colours", 3)

    def predict(self, context, model_input: pd.DataFrame, params=None) -> pd.DataFrame:
        """`scores` of each image, one a label; only their order over images means something.

        Args:
            model_input: a column `image` of encoded images (PNG bytes); any number of rows, sizes may differ.
        """
        images = enumerate(model_input["image"])
        pixels = [decode_image(encoded, colours=self.colours, where=f"row {number}") for number, encoded in images]
        return pd.DataFrame({"scores": [self.classifier(image)[0].tolist() for image in pixels]})


mlflow.models.set_model(MultiLabel())
