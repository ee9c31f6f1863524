"""What MLflow runs for a registered memorability model: clips of encoded frames in, a score for each out."""

import mlflow
import pandas as pd
import torch

from rankops.tables import decode_image
from rankops.tasks.memorability import load


class Memorability(mlflow.pyfunc.PythonModel):
    def load_context(self, context) -> None:
        self.regressor = load(context.artifacts["weights"])
        self.colours = self.regressor.network.recipe["args"].get("colours", 3)

    def predict(self, context, model_input: pd.DataFrame, params=None) -> pd.DataFrame:
        """`score` of each clip; only their order means something.

        Args:
            model_input: a column `frames`, lists of encoded images (PNG bytes); any number of rows and of frames, those
                of a clip of one size.
        """
        scores = []
        for number, frames in enumerate(model_input["frames"]):
            pixels = [
                decode_image(frame, colours=self.colours, where=f"row {number}, frame {place}")
                for place, frame in enumerate(frames)
            ]
            if not pixels:
                raise ValueError(f"row {number}: no frames, expected at least one")
            if len({frame.shape for frame in pixels}) > 1:
                sizes = sorted({tuple(frame.shape[-2:]) for frame in pixels})
                raise ValueError(f"row {number}: frames of sizes {sizes}, expected one size in a clip")
            scores.append(self.regressor(torch.cat(pixels).unsqueeze(0)).item())
        return pd.DataFrame({"score": scores})


mlflow.models.set_model(Memorability())
