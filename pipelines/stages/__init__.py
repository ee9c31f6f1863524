"""One script a stage of `dvc.yaml`: file name = stage name = block of `params.yaml`."""
