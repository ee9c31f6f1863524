# The whole pipeline in an image, for a CPU or a CUDA GPU (`docker run --gpus all`): PyTorch's wheels bring CUDA's
# libraries, the host brings the driver.
#
#   docker build --tag rankgrad .
#   docker build --tag rankgrad:cpu --build-arg TORCH=cpu .      # 5 GB less: PyTorch's CPU-only builds
#   docker run --gpus all --volume rankgrad:/rankgrad rankgrad
#
# The named volume starts as the image's checkout and keeps data, models, and mlflow.db; with MLFLOW_TRACKING_URI set, runs
# are sent there instead.
FROM python:3.11-slim-bookworm AS build
ARG TORCH=cuda
WORKDIR /rankgrad
COPY requirements.lock requirements-uv.lock pyproject.toml README.md deploy/without_cuda.sh ./
# The lock has the hashes of PyTorch's CUDA builds. The CPU-only builds have the same versions, but no hash here.
RUN python -m venv .venv \
    && .venv/bin/pip install --no-cache-dir --require-hashes -r requirements-uv.lock \
    && uv="env UV_NO_CACHE=1 .venv/bin/uv pip install --compile-bytecode --python .venv/bin/python" \
    && case "$TORCH" in \
        cuda) $uv --require-hashes -r requirements.lock ;; \
        cpu) sh without_cuda.sh < requirements.lock > cpu.lock && $uv --no-deps --require-hashes -r cpu.lock \
            && grep -oE '^torch(vision)?==[0-9.]+' requirements.lock > torch.txt && $uv --no-deps --torch-backend cpu -r torch.txt ;; \
        *) echo "TORCH is $TORCH, expected cuda or cpu" >&2; exit 1 ;; \
    esac
COPY . .
# The worker mounts volumes at the cache and at .retrain, which take over the owner of these folders.
RUN .venv/bin/uv pip install --no-cache --python .venv/bin/python --no-deps --no-build-isolation --editable . \
    && mkdir --parents .dvc/cache .retrain

FROM python:3.11-slim-bookworm
# DVC asks git for the state of the code; LightGBM needs libgomp1. Debian does not keep old versions, so none is pinned here.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends git libgomp1 && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 rankgrad
COPY --from=build --chown=rankgrad:rankgrad /rankgrad /rankgrad
USER 1000
WORKDIR /rankgrad
# The option `--gpus` selects GPUs.
ENV PATH=/rankgrad/.venv/bin:$PATH NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    RANKGRAD_PROJECT=/rankgrad RANKGRAD_IN_IMAGE=1 MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false
CMD ["sh", "-c", "rankgrad fetch && exec dvc repro"]
