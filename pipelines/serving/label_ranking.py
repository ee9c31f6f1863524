"""What MLflow runs for a registered label ranker: encoded images in, ordered labels with scores out."""

from threading import Lock

import mlflow
import pandas as pd
from mlflow.exceptions import MlflowException

from rankops.io.images import picture
from rankops.tasks.label_ranking import load
from rankops.tasks.predict import colors_of, order_of, predicted


class LabelRanking(mlflow.pyfunc.PythonModel):
    def load_context(self, context) -> None:
        self.ranker = load(context.artifacts["weights"])
        self.colors = colors_of(self.ranker.scorer)
        # MLflow's server asks from several threads: their activations together would be as many times as large.
        self.turn = Lock()

    def predict(self, context, model_input: pd.DataFrame, params=None) -> pd.DataFrame:
        """`labels` (the selected ones, the most important first), `label_ranks` and `scores` of each image.

        Args:
            model_input: a column `image` of encoded images (PNG or JPEG bytes); any number of rows, sizes may differ.

        Raises:
            MlflowException: no rows, or an image that cannot be ranked; the server answers with status 400.
        """
        if model_input.empty:
            raise MlflowException.invalid_parameter_value("no rows, expected at least one with a column image")
        named = ((f"row {number}", encoded) for number, encoded in enumerate(model_input["image"]))
        pictures = ((where, picture(encoded, colors=self.colors, where=where)) for where, encoded in named)
        try:
            with self.turn:
                table = predicted(self.ranker, pictures)
        except ValueError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error
        found = table.select(["label_ranks", "scores"]).to_pylist()
        return pd.DataFrame([{"labels": order_of(row["label_ranks"])} | row for row in found])


mlflow.models.set_model(LabelRanking())
