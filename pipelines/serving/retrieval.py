"""What MLflow runs for a registered dual encoder: encoded images or captions in, embeddings out."""

from threading import Lock

import mlflow
import pandas as pd
from mlflow.exceptions import MlflowException
from torch import Tensor

from rankops.io.images import picture
from rankops.tasks.predict import colors_of, of_row
from rankops.tasks.retrieval import load


class Retrieval(mlflow.pyfunc.PythonModel):
    def load_context(self, context) -> None:
        self.encoder = load(context.artifacts["weights"])
        self.colors = colors_of(self.encoder.network)
        # MLflow's server asks from several threads: their activations together would be as many times as large.
        self.turn = Lock()

    def predict(self, context, model_input: pd.DataFrame, params=None) -> pd.DataFrame:
        """`embedding` of each row, of unit length: the product of two is their cosine.

        Args:
            model_input: columns `image` (encoded, PNG or JPEG bytes) and `caption`; each row has one of them. In
                JSON all rows of a request have the same one, because MLflow's server decodes columns as a whole.

        Raises:
            MlflowException: a row with both or neither, or an image that cannot be read; the server answers with
                status 400.
        """
        try:
            embeddings = []
            for number, row in enumerate(model_input.to_dict("records")):
                with of_row(number):
                    embeddings.append(self._embedding(number, row)[0].tolist())
        except ValueError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error
        return pd.DataFrame({"embedding": embeddings})

    def _embedding(self, number: int, row: dict) -> Tensor:
        image, caption = row.get("image"), row.get("caption")
        if isinstance(image, bytes) == isinstance(caption, str):
            raise ValueError(f"row {number}: expected either an image or a caption")
        if isinstance(caption, str):
            return self.encoder.captions([caption])
        pixels = picture(image, colors=self.colors, where=f"row {number}")
        with self.turn:
            return self.encoder.images(pixels)


mlflow.models.set_model(Retrieval())
