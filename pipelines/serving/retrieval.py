"""What MLflow runs for a registered dual encoder: encoded images or captions in, embeddings out."""

import mlflow
import pandas as pd

from rankops.tables import decode_image
from rankops.tasks.retrieval import load


class Retrieval(mlflow.pyfunc.PythonModel):
    def load_context(self, context) -> None:
        self.encoder = load(context.artifacts["weights"])
        self.colours = self.encoder.network.recipe["args"].get("colours", 3)

    def predict(self, context, model_input: pd.DataFrame, params=None) -> pd.DataFrame:
        """`embedding` of each row, of unit length: the product of two is their cosine.

        Args:
            model_input: columns `image` (encoded, PNG bytes) and `caption`; each row has one of them.
        """
        embeddings = []
        for number, row in enumerate(model_input.to_dict("records")):
            image, caption = row.get("image"), row.get("caption")
            if isinstance(image, bytes) == isinstance(caption, str):
                raise ValueError(f"row {number}: expected either an image or a caption")
            if isinstance(caption, str):
                embedding = self.encoder.captions([caption])
            else:
                embedding = self.encoder.images(decode_image(image, colours=self.colours, where=f"row {number}"))
            embeddings.append(embedding[0].tolist())
        return pd.DataFrame({"embedding": embeddings})


mlflow.models.set_model(Retrieval())
