"""No loss: what `auxiliary: {name: none}` of a run names, so that its stage has a file to depend on."""
