# MariaDB from Debian packages, for accounting: the same whatever Slurm runs beside it, so that another Slurm neither
# restarts nor upgrades the database.
FROM docker.io/library/debian:trixie-slim AS debian
ENV DEBIAN_FRONTEND=noninteractive
COPY bin/install-packages bin/write-sbom /usr/local/sbin/
# The id is fixed because it owns files on volumes, and MariaDB knows its administrator by the name.
RUN groupadd -g 404 mariadb && useradd -r -u 404 -g 404 -M -d /var/lib/mysql -s /usr/sbin/nologin mariadb

# The one program that backups need of a package that brings all of perl.
FROM debian AS dump
RUN apt-get update && cd /tmp && apt-get download mariadb-client && dpkg -x mariadb-client_*.deb /client

# Of mariadb-server only its core: the rest is for machines that start it at boot.
FROM debian
RUN install-packages ca-certificates curl mariadb-server-core mariadb-client-core libpcre2-posix3 tini \
 && rm -rf /var/cache/* /var/log/* \
 && install -d -o mariadb -g mariadb -m 0700 /var/lib/mysql && install -d -o mariadb -g mariadb /run/mysqld /backup
COPY --from=dump /client/usr/bin/mariadb-dump /usr/bin/
COPY bin/start-mariadb bin/backup-mariadb bin/copy-backup bin/restore-mariadb /usr/local/bin/
USER 404:404
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/start-mariadb"]
