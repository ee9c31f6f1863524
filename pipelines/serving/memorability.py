"""What MLflow runs for a registered memorability model: clips of encoded frames in, a score for each out."""

import base64
from threading import Lock

import mlflow
import pandas as pd
import torch
from mlflow.exceptions import MlflowException
from torch import Tensor

from rankops.io.images import PIXELS, picture
from rankops.tasks.memorability import load
from rankops.tasks.predict import colors_of, of_row


def _image(frame: bytes) -> bytes:
    """MLflow's server decodes base64, which no image is, in a column of bytes but not in one of lists of them."""
    try:
        return base64.b64decode(frame, validate=True)
    except ValueError:
        return frame


def _clip(frames: list[bytes], *, colors: int, where: str) -> Tensor:
    """The frames of one clip (1, n, ...)."""
    pixels, total = [], 0
    for place, frame in enumerate(frames):
        pixels.append(picture(_image(frame), colors=colors, where=f"{where}, frame {place}"))
        total += pixels[-1].shape[-2] * pixels[-1].shape[-1]
        if total > PIXELS:  # they go through the network together
            raise ValueError(f"{where}: frames of more than {PIXELS:,} pixels in all: send fewer or smaller ones")
    if not pixels:
        raise ValueError(f"{where}: no frames, expected at least one")
    if len({frame.shape for frame in pixels}) > 1:
        sizes = sorted({tuple(frame.shape[-2:]) for frame in pixels})
        raise ValueError(f"{where}: frames of sizes {sizes}, expected one size in a clip")
    return torch.cat(pixels).unsqueeze(0)


class Memorability(mlflow.pyfunc.PythonModel):
    def load_context(self, context) -> None:
        self.regressor = load(context.artifacts["weights"])
        self.colors = colors_of(self.regressor.network)
        # MLflow's server asks from several threads: their activations together would be as many times as large.
        self.turn = Lock()

    def predict(self, context, model_input: pd.DataFrame, params=None) -> pd.DataFrame:
        """`score` of each clip; only their order means something.

        Args:
            model_input: a column `frames`, lists of encoded images (PNG or JPEG bytes, or base64 of them); any
                number of rows and of frames, those of a clip of one size.

        Raises:
            MlflowException: a clip that cannot be read; the server answers with status 400.
        """
        scores = []
        try:
            for number, frames in enumerate(model_input["frames"]):
                with of_row(number):
                    clip = _clip(frames, colors=self.colors, where=f"row {number}")
                    with self.turn:
                        scores.append(self.regressor(clip).item())
        except ValueError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error
        return pd.DataFrame({"score": scores})


mlflow.models.set_model(Memorability())
