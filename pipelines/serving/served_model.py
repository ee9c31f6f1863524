"""The code that MLflow runs for every registered model. It is logged as code, so that nothing is unpickled."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import torch
from mlflow.exceptions import MlflowException

from rankgrad import lookup
from rankgrad.datasets.tables.rows import asked
from rankgrad.inputs import as_list, check_numbers
from rankgrad.io.checkpoints import load_model
from rankgrad.tasks import check_answer, of_row

# Limits of a request. Send larger ones as several requests, or as a table for `rankgrad predict`.
BODY = 2**25  # bytes; the server refuses larger bodies before reading them
ROWS = 1024
VALUES = 2**24  # pixels, features, characters, or pairs of scores in all rows
# Limits of a turn: requests take turns, so that a small one does not wait for the end of a large one.
ROWS_OF_TURN, VALUES_OF_TURN = 32, 2**17


class Model(mlflow.pyfunc.PythonModel):
    """Serve a sorter, or the network of a task, with limits on requests; the task checks the rows."""

    def load_context(self, context: Any) -> None:
        self.load(context.artifacts["weights"])

    def load(self, weights: str | Path) -> None:
        """Load the folder of a model.

        Raises:
            ValueError: the model is incomplete, or does not belong to a task.
        """
        self.network = load_model(weights)
        self.recipe: dict[str, Any] = self.network.recipe
        if self.recipe["folder"] == "models" and "task" not in self.recipe:
            raise ValueError(f"{weights}: model.json names no task, expected a model that a run trained")
        self.task: Any = lookup.find("tasks", self.recipe["task"])() if "task" in self.recipe else None
        # Servers call from several threads, whose activations would add up in memory. A single thread answers all in
        # order; with a lock, the thread that released it could take it again at once.
        self.turns = ThreadPoolExecutor(1)

    def predict(self, context, model_input: pd.DataFrame, params=None) -> Any:  # MLflow warns of other hints
        """Return the answer for each row.

        Args:
            context: MLflow's context.
            model_input: for a sorter, scores (n, d), whose ranks 1..d are returned (1 = the largest score); otherwise a
                table with the columns of the task, see its `respond`, or of the training table. At most `ROWS` rows
                with `VALUES` values in total.
            params: MLflow's params, not used.

        Raises:
            MlflowException: a row cannot be answered; a server responds with status 400.
        """
        try:
            if self.task is None:
                return np.array(self.answered(self.checked(np.asarray(model_input).tolist())), np.float32)
            # If a table has no known column, MLflow drops all of them; the error then lists the expected columns.
            rows = model_input.to_dict("records") if len(model_input.columns) else [{}]
            answers = pd.DataFrame(self.answered(self.checked(rows)))
            if "error" in answers:  # of some rows: JSON has no NaN
                answers = answers.astype(object).where(answers.notna(), None)
            return answers
        except ValueError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error

    def checked(self, rows: list[Any]) -> list[Any]:
        """Return the checked rows of a request within the limits.

        Raises:
            ValueError: a row is invalid, or the request is too large; its size is checked before decoding.
        """
        if not 1 <= len(rows) <= ROWS:
            raise ValueError(f"{len(rows) or 'no'} rows, expected 1 to {ROWS}: send several requests")
        if self.task is None:
            checked = self._scores(rows)
        else:
            rows = [*asked(rows, self.recipe, self.task.columns(self.recipe))]
            checked = self.task.checked(self.recipe, rows, first=1)
        if (total := sum(self._sizes(checked))) > VALUES:
            counted = "pairs of scores" if self.task is None else "pixels, features or characters"
            raise ValueError(f"{total} {counted} in all rows, expected at most {VALUES}: send several requests")
        return checked

    def answered(self, rows: list[Any]) -> list[Any]:
        """Return the answers to checked rows, in turns so short that small requests do not wait for long."""
        size = max(1, min(ROWS_OF_TURN, VALUES_OF_TURN // max(1, *self._sizes(rows))))
        answer: Any = self._ranks if self.task is None else self._answers
        answers: list[Any] = []
        for first in range(0, len(rows), size):
            answers += self.turns.submit(answer, rows[first : first + size], first + 1).result()
        return answers

    def _sizes(self, rows: Iterable[Any]) -> list[int]:
        """Return how many values the network reads in each row, or how many pairs of scores it compares."""
        if self.task is None:
            return [len(row) ** 2 for row in rows]
        sizes = []
        for number, row in enumerate(rows, 1):
            with of_row(number):
                sizes.append(self.task.values(self.recipe, row))
        return sizes

    def _answers(self, rows: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
        return self.task.answered(self.network, rows, first=first)

    def _scores(self, rows: list[Any]) -> list[list[float]]:
        scores = []
        for number, row in enumerate(rows, 1):
            place = f"row {number}"
            if isinstance(row, dict):
                raise ValueError(f'{place} is an object, expected scores, as in {{"inputs": [[0.1, 0.7, 0.3]]}}')
            scores.append(as_list(row, place))
            check_numbers(scores[-1], place)
            if len(scores[-1]) != len(scores[0]):
                raise ValueError(f"{place} has {len(scores[-1])} scores, expected {len(scores[0])}, like row 1")
        return scores

    @torch.inference_mode()
    def _ranks(self, rows: list[list[float]], first: int) -> list[list[float]]:
        scores = torch.tensor(rows, dtype=torch.float64).float()
        for number, row in enumerate(scores.tolist(), first):
            check_answer({"scores": row}, number)
        ranks = self.network(scores).tolist()
        for number, row in enumerate(ranks, first):
            check_answer({"ranks": row}, number)
        return ranks


mlflow.models.set_model(Model())
