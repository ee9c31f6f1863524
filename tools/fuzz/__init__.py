"""Random inputs that try to break what reads files, requests and tensors: `make fuzz`, see `tools.fuzz.__main__`."""
