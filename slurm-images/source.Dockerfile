# One package of Debian, of a source of Slurm: slurm-images/build --slurm-source.
FROM debian AS built
ENV DEBIAN_FRONTEND=noninteractive
# The last packages, a parser of HTTP for slurmrestd and s2n for TLS, have different names in different releases of Debian.
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      bzip2 dpkg-dev file gcc libc6-dev libcurl4-openssl-dev libdbus-1-dev libhwloc-dev libjson-c-dev libjwt-dev \
      liblua5.1-0-dev liblz4-dev libmariadb-dev libncurses-dev libnuma-dev libpam0g-dev libpmix-dev libyaml-dev make pkgconf \
      python3-minimal xz-utils \
      $(apt-cache search --names-only '^lib(http-parser|llhttp|s2n)-dev$' | cut -d' ' -f1) \
 && rm -rf /var/lib/apt/lists/*
COPY slurm.tar build-slurm /usr/local/src/
RUN /usr/local/src/build-slurm /usr/local/src/slurm.tar /slurm
# This is a step of its own, so that a change of it does not compile Slurm again.
COPY pack-slurm /usr/local/src/
RUN /usr/local/src/pack-slurm /usr/local/src/slurm.tar /slurm /package

FROM scratch
COPY --from=built /package /
