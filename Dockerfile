# A container image of cache-daemon: built with Swift, run on plain Debian.
#
#   docker build -t cache-daemon .
#   docker run -p 11211:11211 -v cache:/var/cache/cache-daemon cache-daemon --memory 1GiB --disk 20GiB
#
# Inside, it listens on every address without accounts: publish the port to trusted networks only, or see "TLS" and
# "Accounts" in docs/OPERATIONS.md.
FROM swift:6.3-bookworm AS build
WORKDIR /src
COPY Scripts/install-dependencies Scripts/
RUN apt-get update -q && Scripts/install-dependencies build && apt-get install -y -q --no-install-recommends dpkg-dev
COPY . /src
RUN swift build -c release --static-swift-stdlib --product cache-daemon \
    && swift build -c release --static-swift-stdlib --product cache-stats \
    && swift build -c release --static-swift-stdlib --product cache-bench && Scripts/make-deb

FROM debian:bookworm-slim
COPY --from=build /src/.build/cache-daemon_*.deb /tmp/
RUN apt-get update -q && apt-get install -y -q --no-install-recommends /tmp/cache-daemon_*.deb \
    && rm -rf /var/lib/apt/lists/* /tmp/*.deb \
    && useradd --system --home-dir /var/cache/cache-daemon --shell /usr/sbin/nologin cache \
    && install -d -o cache -g cache -m 0700 /var/cache/cache-daemon
USER cache
ENV CACHE_DIRECTORY=/var/cache/cache-daemon
VOLUME /var/cache/cache-daemon
EXPOSE 11211 11212
# The daemon stops on SIGTERM and writes back what its journal holds.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s CMD ["cache-stats", "check"]
ENTRYPOINT ["cache-daemon", "--listen", "0.0.0.0:11211", "--allow-insecure", "--admin", "0.0.0.0:11212"]
