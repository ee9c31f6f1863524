"""What MLflow runs for a registered sorter: scores in, ranks out. Logged as code, so nothing is unpickled."""

import mlflow
import numpy as np
import torch

from rankops.sorters import load_sorter


class Sorter(mlflow.pyfunc.PythonModel):
    def load_context(self, context) -> None:
        self.sorter = load_sorter(context.artifacts["weights"])

    def predict(self, context, model_input: np.ndarray, params=None) -> np.ndarray:
        """Ranks 1..d (1 = the largest score) of scores (n, d)."""
        with torch.inference_mode():
            return self.sorter(torch.as_tensor(np.asarray(model_input), dtype=torch.float32)).numpy()


mlflow.models.set_model(Sorter())
