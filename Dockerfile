# sskp as an image, in two stages: Rust, a C compiler and Python stay in the first. `docker build -t sskp .`; docs/cluster.md.
FROM rust:1.95-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# The commit, which manifests of runs name: `--build-arg SSKP_COMMIT=$(git rev-parse --short=12 HEAD)`.
ARG SSKP_COMMIT
RUN cargo xtask setup && cargo build --release --package sskp

FROM debian:bookworm-slim
# The program looks for MuJoCo's library and for the demonstrations beside itself.
COPY --from=build /src/target/release/sskp /opt/sskp/sskp
COPY --from=build /src/vendor/mujoco/libmujoco.so.* /opt/sskp/
COPY --from=build /src/data/ /opt/sskp/data/
RUN ln -s /opt/sskp/sskp /usr/local/bin/sskp && sskp robots
# Runs belong to whoever owns the volume; nothing here needs root.
USER 1000
WORKDIR /runs
ENTRYPOINT ["sskp"]
