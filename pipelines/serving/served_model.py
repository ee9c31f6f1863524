"""What MLflow runs for every registered model. It is logged as code, so that nothing is unpickled."""

from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import torch
from mlflow.exceptions import MlflowException

from rankgrad import lookup
from rankgrad.io.checkpoints import load_model
from rankgrad.sorters import Sorter
from rankgrad.tasks._predict import of_row

# Of a request. What is larger belongs into several, or into a table for `rankgrad predict`.
BODY = 2**25  # bytes, which the server refuses before it reads them
ROWS = 1024
VALUES = 2**24  # pixels, features, characters or pairs of scores, of all its rows
CHARACTERS = 20_000  # of a text
# Of a turn: requests take turns, so that a small one need not wait until a large one has ended.
ROWS_OF_TURN, VALUES_OF_TURN = 32, 2**17


class Model(mlflow.pyfunc.PythonModel):
    """A sorter, or the network of a task."""

    def load_context(self, context) -> None:
        self.network = load_model(context.artifacts["weights"])
        self.sorts = isinstance(self.network, Sorter)
        self.recipe: dict = vars(self.network)["recipe"]
        self.task: Any = None if self.sorts else lookup.find("tasks", self.recipe["task"])()
        self.columns: dict[str, str] = {} if self.sorts else self.task.columns(self.recipe)
        # MLflow's server asks from several threads, whose activations would add up in memory. One thread answers all,
        # first come, first served; a lock would let the thread that gave it back take it again at once.
        self.turns = ThreadPoolExecutor(1)

    def predict(self, context, model_input: pd.DataFrame, params=None) -> Any:  # MLflow warns of other hints
        """Return the answer of each row.

        Args:
            context: of MLflow.
            model_input: scores (n, d) of a sorter, whose ranks 1..d are returned (1 = the largest score); else a table
                with the columns of the task, see `respond` there. At most `ROWS` rows, of `VALUES` values in all.
            params: of MLflow; there are none.

        Raises:
            MlflowException: a row that cannot be answered; the server answers with status 400.
        """
        try:
            rows: Any = np.asarray(model_input) if self.sorts else model_input.to_dict("records")
            size = self._rows_of_turn(rows)
            answer: Any = self._ranks if self.sorts else self._respond
            parts: list[Any] = [
                self.turns.submit(answer, rows[first : first + size], first + 1).result()
                for first in range(0, len(rows), size)
            ]
        except ValueError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error
        return np.concatenate(parts) if self.sorts else pd.DataFrame([*chain.from_iterable(parts)])

    def _rows_of_turn(self, rows: Any) -> int:
        """Return how many rows are answered together; nothing is decoded before the whole request is known to fit."""
        if not 1 <= len(rows) <= ROWS:
            raise ValueError(f"{len(rows) or 'no'} rows, expected 1 to {ROWS}: send several requests")
        values = [rows[0].size ** 2] * len(rows) if self.sorts else [*map(self._values, count(1), rows)]
        if sum(values) > VALUES:
            counted = "pairs of scores" if self.sorts else "pixels, features or characters"
            raise ValueError(f"{sum(values)} {counted} in all rows, expected at most {VALUES}: send several requests")
        return max(1, min(ROWS_OF_TURN, VALUES_OF_TURN // max(1, *values)))

    def _values(self, number: int, row: dict[str, Any]) -> int:
        """Return how many pixels, features and characters a row has."""
        for name, kind in self.columns.items():
            cell = row.get(name)
            texts = (cell if isinstance(cell, list | np.ndarray) else [cell]) if kind.startswith("text") else ()
            for text in texts:
                if isinstance(text, str) and len(text) > CHARACTERS:
                    raise ValueError(f"row {number}: a {name} of {len(text)} characters, expected at most {CHARACTERS}")
        with of_row(number):
            return self.task.values(self.recipe, row)

    @torch.inference_mode()
    def _ranks(self, scores: np.ndarray, first: int) -> np.ndarray:
        given = torch.as_tensor(scores, dtype=torch.float32)
        for number, row in enumerate(given.numpy(), first):
            _check_finite(row, number, "scores are")
        ranks = self.network(given).numpy()
        for number, row in enumerate(ranks, first):
            _check_finite(row, number)
        return ranks

    @torch.inference_mode()
    def _respond(self, rows: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
        try:
            answers = self.task.respond(self.network, rows, first=first)
        except FloatingPointError as error:
            raise ValueError(f"rows {first} to {first + len(rows) - 1}: the network's answer is not finite") from error
        for number, answer in enumerate(answers, first):
            for name, value in answer.items():
                if name != "id":
                    _check_finite(value, number)
        return answers


def _check_finite(values: Any, number: int, name: str = "answer is") -> None:
    """Raise where a number is NaN or infinite: what was sent is beyond the range of float32, and JSON has no such."""
    if isinstance(values, str) or (isinstance(values, list) and values and isinstance(values[0], str)):
        return
    if not np.isfinite(values).all():
        raise ValueError(f"row {number}: its {name} not finite: expected numbers of a smaller range")


mlflow.models.set_model(Model())
