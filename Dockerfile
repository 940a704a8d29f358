# crashproof in a container: `docker build -t crashproof .`, then
# `docker run --rm -v "$PWD:/src" -w /src crashproof check kv.c`.
FROM rust:1.95-bookworm AS build
WORKDIR /crashproof
COPY . .
RUN make install DESTDIR=/package PREFIX=/usr/local

FROM debian:bookworm-slim
COPY scripts/setup /tmp/setup
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates gdb make \
    && /tmp/setup run && rm -rf /tmp/setup /var/lib/apt/lists/*
COPY --from=build /package /
COPY examples /usr/local/share/crashproof/examples
WORKDIR /src
ENTRYPOINT ["crashproof"]
CMD ["--help"]
