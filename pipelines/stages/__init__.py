"""One script per stage of `dvc.yaml`: file name = stage name = block of `params.yaml`."""
