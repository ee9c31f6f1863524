"""What MLflow runs for every registered model. It is logged as code, so that nothing is unpickled."""

from threading import Lock
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import torch
from mlflow.exceptions import MlflowException

from rankops import lookup
from rankops.io.checkpoints import load_model
from rankops.sorters.base import Sorter


class Model(mlflow.pyfunc.PythonModel):
    """A sorter, or the network of a task."""

    def load_context(self, context) -> None:
        self.network = load_model(context.artifacts["weights"])
        self.sorts = isinstance(self.network, Sorter)
        recipe: dict = vars(self.network)["recipe"]
        self.task: Any = None if self.sorts else lookup.find("tasks", recipe["task"])()
        # MLflow's server asks from several threads, whose activations would add up in memory.
        self.turn = Lock()

    def predict(self, context, model_input: pd.DataFrame, params=None) -> pd.DataFrame:  # MLflow warns of other hints
        """Return the answer of each row.

        Args:
            context: of MLflow.
            model_input: scores (n, d) of a sorter, whose ranks 1..d are returned (1 = the largest score); else a table
                with the columns of the task, see `respond` there.
            params: of MLflow; there are none.

        Raises:
            MlflowException: a row that cannot be answered; the server answers with status 400.
        """
        try:
            with self.turn, torch.inference_mode():
                if self.sorts:
                    return self.network(torch.as_tensor(np.asarray(model_input), dtype=torch.float32)).numpy()
                return pd.DataFrame(self.task.respond(self.network, model_input.to_dict("records")))
        except ValueError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error


mlflow.models.set_model(Model())
