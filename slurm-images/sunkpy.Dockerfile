# sunkpy itself: operator, syncer, scheduler and CLI in one image. The context is the repository.
FROM docker.io/library/debian:trixie-slim AS python
ENV DEBIAN_FRONTEND=noninteractive
COPY slurm-images/bin/install-packages slurm-images/bin/write-sbom /usr/local/sbin/
RUN install-packages ca-certificates python3 tini

# /opt/sunkpy has the locked packages and nothing else. /opt/uv has uv and the locked packages that build sunkpy. This stage is
# built again only when the lock file changes.
FROM python AS locked
RUN install-packages python3-venv
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=/opt/sunkpy
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir --disable-pip-version-check -q uv==0.13.8
WORKDIR /src
COPY pyproject.toml uv.lock ./
RUN /opt/uv/bin/uv sync --frozen --no-dev --no-install-project \
 && UV_PROJECT_ENVIRONMENT=/opt/uv /opt/uv/bin/uv sync --frozen --inexact --only-group build

# Only the package of sunkpy, as site-packages for that environment.
FROM locked AS package
COPY README.md LICENSE ./
COPY sunkpy ./sunkpy
RUN /opt/uv/bin/pip install --no-cache-dir --disable-pip-version-check -q --no-deps --no-index --no-build-isolation --prefix /package . \
 && mkdir -p /out && cp -a /package/lib/python3*/site-packages/. /out/

FROM python
COPY --from=locked /opt/sunkpy /opt/sunkpy
RUN printf '#!/opt/sunkpy/bin/python\nfrom sunkpy.cli import main\n\nmain()\n' > /usr/local/bin/sunkpy && chmod 0755 /usr/local/bin/sunkpy && write-sbom
COPY --from=package /out /opt/sunkpy-package
ENV PYTHONPATH=/opt/sunkpy-package PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/sunkpy"]
