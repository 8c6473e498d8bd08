# hgtrain from the Debian package that scripts/package has made. BASE: debian:12 or newer, ubuntu:22.04 or newer, or for GPUs an
# image with CUDA's libraries, such as nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04.
ARG BASE=debian:12-slim
FROM ${BASE}
COPY dist/hgtrain_*_amd64.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/hgtrain_*_amd64.deb openssh-client && \
    rm -rf /tmp/hgtrain_*_amd64.deb /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["hgtrain"]
