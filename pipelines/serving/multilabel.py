"""What MLflow runs for a registered multi-label classifier: encoded images in, a score for each label out."""

from threading import Lock

import mlflow
import pandas as pd
from mlflow.exceptions import MlflowException

from rankops.io.images import picture
from rankops.tasks.multilabel import load
from rankops.tasks.predict import colors_of, of_row


class MultiLabel(mlflow.pyfunc.PythonModel):
    def load_context(self, context) -> None:
        self.classifier = load(context.artifacts["weights"])
        self.colors = colors_of(self.classifier.network)
        # MLflow's server asks from several threads: their activations together would be as many times as large.
        self.turn = Lock()

    def predict(self, context, model_input: pd.DataFrame, params=None) -> pd.DataFrame:
        """`scores` of each image, one a label; only their order over images means something.

        Args:
            model_input: a column `image` of encoded images (PNG or JPEG bytes); any number of rows, sizes may differ.

        Raises:
            MlflowException: an image that cannot be read; the server answers with status 400.
        """
        scores = []
        try:
            for number, encoded in enumerate(model_input["image"]):
                with of_row(number):
                    pixels = picture(encoded, colors=self.colors, where=f"row {number}")
                    with self.turn:
                        scores.append(self.classifier(pixels)[0].tolist())
        except ValueError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error
        return pd.DataFrame({"scores": scores})


mlflow.models.set_model(MultiLabel())
