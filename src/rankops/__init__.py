"""Train on ranking metrics: differentiable sorters, ranking losses and what is needed to train with them.

`rankops.ranks`, `rankops.sorters`, `rankops.losses`, `rankops.metrics` and `rankops.io.checkpoints` need torch and
safetensors (which writes with numpy) alone. Datasets, models, tasks and the training loop need the extra `tasks`: in a
clone, `pip install '.[tasks]'`.
"""
