"""What MLflow runs for a registered dual encoder: encoded images or captions in, embeddings out."""

import mlflow
import pandas as pd
from mlflow.exceptions import MlflowException
from torch import Tensor

from rankops.prediction import colours_of, picture
from rankops.tasks.retrieval import load


class Retrieval(mlflow.pyfunc.PythonModel):
    def load_context(self, context) -> None:
        self.encoder = load(context.artifacts["weights"])
        self.colours = colours_of(self.encoder.network)

    def predict(self, context, model_input: pd.DataFrame, params=None) -> pd.DataFrame:
        """`embedding` of each row, of unit length: the product of two is their cosine.

        Args:
            model_input: columns `image` (encoded, PNG or JPEG bytes) and `caption`; each row has one of them.

        Raises:
            MlflowException: a row with both or neither, or an image that cannot be read; the server answers with
                status 400.
        """
        try:
            rows = enumerate(model_input.to_dict("records"))
            return pd.DataFrame({"embedding": [self._embedding(number, row)[0].tolist() for number, row in rows]})
        except ValueError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error

    def _embedding(self, number: int, row: dict) -> Tensor:
        image, caption = row.get("image"), row.get("caption")
        if isinstance(image, bytes) == isinstance(caption, str):
            raise ValueError(f"row {number}: expected either an image or a caption")
        if isinstance(caption, str):
            return self.encoder.captions([caption])
        return self.encoder.images(picture(image, colours=self.colours, where=f"row {number}"))


mlflow.models.set_model(Retrieval())
