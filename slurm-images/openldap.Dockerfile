# OpenLDAP from Debian packages: a directory to try a cluster with, the same whatever Slurm runs beside it.
FROM docker.io/library/debian:trixie-slim
ENV DEBIAN_FRONTEND=noninteractive
COPY bin/install-packages bin/write-sbom /usr/local/sbin/
# The id is fixed because it owns files on volumes. The package makes no database: that is for the volume.
RUN groupadd -g 405 openldap && useradd -r -u 405 -g 405 -M -d /var/lib/ldap -s /usr/sbin/nologin openldap \
 && echo slapd slapd/no_configuration boolean true | debconf-set-selections \
 && install-packages ldap-utils slapd tini \
 && rm -rf /var/cache/* /var/log/* /etc/ldap/slapd.d /var/lib/ldap \
 && install -d -o openldap -g openldap -m 0700 /var/lib/ldap && install -d -o openldap -g openldap /run/slapd
COPY bin/start-openldap bin/fill-openldap /usr/local/bin/
USER 405:405
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/start-openldap"]
