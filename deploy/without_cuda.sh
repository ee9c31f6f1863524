#!/bin/sh
# Copy a lock file from standard input without PyTorch and the libraries of CUDA, each of which is some lines long.
awk '/^[a-z]/ { kept = !/^(torch|torchvision|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)==/ } kept'
