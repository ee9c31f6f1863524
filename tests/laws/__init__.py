"""Laws that hold for whatever Hypothesis draws: a few examples in `make test`, as many as one likes in `make fuzz`."""
