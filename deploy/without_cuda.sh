#!/bin/sh
# Copy a lock file from standard input, leaving out PyTorch and the CUDA libraries; each entry spans several lines.
awk '/^[a-z]/ { kept = !/^(torch|torchvision|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)==/ } kept'
